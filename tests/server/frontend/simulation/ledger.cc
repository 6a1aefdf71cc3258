#include "tests/server/frontend/simulation/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/status_details.h"
#include "server/frontend/groups/preemption.h"

namespace kinora::simulation {
namespace {

// Two leases, the housekeeper's grace, and kHears.
constexpr absl::Duration kClientsEnd = absl::Seconds(100);

constexpr absl::Duration kMessages = absl::Seconds(1);

}  // namespace

void Ledger::Fail(const std::string& what) {
  world_.Note(absl::StrCat("FAILURE: ", what));
  if (failure_.empty()) failure_ = what;
}

void Ledger::Stored(const v1::VideoEvent& event) {
  Job& job = jobs_[event.video_id()];
  const int64_t last = job.events.empty() ? 0 : job.events.back().sequence();
  if (event.sequence() != last + 1) {
    Fail(absl::StrCat(event.video_id(), ": event ", event.sequence(), " was stored after ", last));
  }
  if (event.sequence() == 1) Created(event.state().request_id(), event.video_id());
  if (IsTerminal(job.state)) Fail(absl::StrCat(event.video_id(), " changed after its end"));
  job.events.push_back(event);
  if (event.has_stage()) return;
  const v1::Video& video = event.has_terminal() ? event.terminal() : event.state();
  if (video.attempt() < job.attempt) Fail(absl::StrCat(event.video_id(), ": its attempt became smaller"));
  if (video.state() == v1::Video::RUNNING && job.state == v1::Video::QUEUED && video.attempt() == job.attempt) {
    Fail(absl::StrCat(event.video_id(), ": attempt ", job.attempt, " began twice"));
  }
  world_.Note(absl::StrCat("store: ", event.video_id(), " ", v1::Video::State_Name(video.state()), " attempt ",
                           video.attempt()));
  if (video.preemptions() > kMostPreemptions) Fail(absl::StrCat(event.video_id(), " was interrupted too often"));
  if (video.resolved().resumed_from_step() > 0 && video.state() == v1::Video::RUNNING) {
    if (std::exchange(job.resumed, video.attempt()) != video.attempt()) ++resumed_;
  }
  interrupted_ += video.preemptions() - std::exchange(job.preemptions, video.preemptions());
  if (video.state() == v1::Video::QUEUED) job.queued_since = world_.now();
  if (job.state == v1::Video::QUEUED) job.claimed_time = world_.now();
  job.attempt = video.attempt();
  job.state = video.state();
  if (job.state == v1::Video::QUEUED || IsTerminal(job.state)) {
    absl::Time& end = job.leases[job.attempt];
    end = std::min(end, world_.now());
  }
  if (event.has_terminal()) CheckEnd(video);
}

void Ledger::CheckEnd(const v1::Video& video) {
  if (video.state() == v1::Video::COMPLETED) {
    if (video.artifacts().empty()) Fail(absl::StrCat(video.id(), " is COMPLETED without an artifact"));
    for (const v1::Artifact& artifact : video.artifacts()) {
      const std::string key = absl::StrCat(video.id(), "/", video.attempt(), "/", artifact.id());
      const auto found = artifacts_.find(key);
      if (found == artifacts_.end() || found->second != artifact.sha256()) {
        Fail(absl::StrCat(video.id(), " is COMPLETED, but artifact ", key, " is not there or differs"));
      }
      if (artifact.sha256() != ClipOf(video.id(), StepsOf(video.id()))) {
        Fail(absl::StrCat(video.id(), " is COMPLETED with the clip of ", artifact.sha256()));
      }
    }
  }
  if (ErrorReason(FromRpcStatus(video.error())) == "WORKER_GROUP_LOST" && video.attempt() < kRules.max_lost_groups) {
    Fail(absl::StrCat(video.id(), " failed for lost groups after ", video.attempt(), " attempts"));
  }
}

void Ledger::Created(const std::string& request_id, const JobId& id) {
  const auto [known, is_new] = by_request_.try_emplace(request_id, id);
  if (known->second != id) Fail(absl::StrCat("request ", request_id, " made ", known->second, " and ", id));
}

void Ledger::RunStarted(const JobId& id, int attempt, const std::string& group, bool alone) {
  world_.Note(absl::StrCat("group ", group, " runs ", id, " attempt ", attempt));
  Job& job = jobs_[id];
  if (!alone && world_.now() > job.leases[attempt] + kMessages) {
    Fail(absl::StrCat(id, ": attempt ", attempt, " begins after its lease"));
  }
  if (!job.started.insert(attempt).second) Fail(absl::StrCat(id, ": attempt ", attempt, " ran twice"));
  const absl::Time late = std::max(job.client_lost, some_well_since_()) + kClientsEnd;
  if (world_.now() > late) Fail(absl::StrCat(id, " ran long after its client was lost"));
  if (attempt > job.attempt) Fail(absl::StrCat(id, ": attempt ", attempt, " ran, but was not claimed"));
}

void Ledger::StepStarts(const JobId& id, int attempt, absl::Time awake_since) {
  const absl::Time end = std::max(jobs_[id].leases[attempt], awake_since) + kMessages;
  if (world_.now() > end) Fail(absl::StrCat(id, ": a step of attempt ", attempt, " starts after its lease"));
}

void Ledger::PointStored(const JobId& id, int attempt) {
  const Job& job = jobs_.at(id);
  const bool runs = job.state == v1::Video::RUNNING || job.state == v1::Video::FINALIZING;
  if (!runs || attempt != job.attempt) Fail(absl::StrCat(id, ": attempt ", attempt, " stored its state after its end"));
}

void Ledger::ClientLost(const JobId& id) {
  Job& job = jobs_.at(id);
  job.client_lost = std::min(job.client_lost, world_.now());
}

void Ledger::FrontendLost() {
  for (auto& [id, job] : jobs_) {
    if (job.client_lost < world_.now()) job.client_lost = world_.now();
  }
}

void Ledger::DiedOf(const std::string& key, const FrontendHealth& frontend) {
  world_.Note(absl::StrCat("a worker dies of ", key));
  const auto before = died_of_.find(key);
  if (before != died_of_.end() && before->second.second->well_since <= before->second.first) {
    Fail(absl::StrCat(key, " was offered again"));
  }
  died_of_[key] = {world_.now(), &frontend};
}

void Ledger::CancelStored(const JobId& id) {
  Job& job = jobs_.at(id);
  job.cancelled = std::min(job.cancelled, world_.now());
}

void Ledger::StepDone(const JobId& id, int attempt, absl::Time well_since) {
  constexpr int kMostSteps = 2;
  Job& job = jobs_[id];
  const bool late = attempt == job.attempt && well_since <= job.cancelled && world_.now() > job.cancelled + kHears;
  if (late && ++job.late_steps > kMostSteps) Fail(absl::StrCat(id, " goes on long after it was cancelled"));
  const auto cancelled = cancelled_steps_.find({id, attempt});
  if (cancelled != cancelled_steps_.end() && ++cancelled->second > kMostSteps) {
    Fail(absl::StrCat(id, ": ran more than ", kMostSteps, " steps after its group heard of the cancel"));
  }
}

std::vector<JobId> Ledger::WaitingSince(absl::Time time) const {
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_) {
    if (job.state == v1::Video::QUEUED && job.queued_since <= time) ids.push_back(id);
  }
  return ids;
}

std::map<JobId, FrontendId> Ledger::NotStartedSince(absl::Time time) const {
  std::map<JobId, FrontendId> owners;
  for (const auto& [id, job] : jobs_) {
    if (job.state == v1::Video::RUNNING && !job.started.contains(job.attempt) && job.claimed_time <= time) {
      owners[id] = job.owner;
    }
  }
  return owners;
}

std::vector<JobId> Ledger::WithoutLeaseSince(absl::Time time) const {
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_) {
    const bool runs = job.state == v1::Video::RUNNING || job.state == v1::Video::FINALIZING;
    if (runs && job.leases.at(job.attempt) <= time) ids.push_back(id);
  }
  return ids;
}

bool Ledger::AllEnded() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& entry) { return IsTerminal(entry.second.state); });
}

std::string Ledger::Waiting() const {
  std::string out;
  for (const auto& [id, job] : jobs_) {
    if (!IsTerminal(job.state)) absl::StrAppend(&out, id, " is ", v1::Video::State_Name(job.state), "; ");
  }
  return out;
}

}  // namespace kinora::simulation
