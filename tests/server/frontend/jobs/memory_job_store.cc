#include "tests/server/frontend/jobs/memory_job_store.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/jobs/job_listing.h"

namespace kinora {
namespace {

constexpr absl::Duration kKeepExpiredIds = absl::Hours(24 * 30);  // as job_tables.cc

}  // namespace

MemoryJobStore::MemoryJobStore(const JobRules& rules, Clock& clock, EventListener listener, Executor& executor,
                               std::function<JobId()> new_id)
    : rules_(rules), clock_(clock), listener_(std::move(listener)), executor_(executor), new_id_(std::move(new_id)) {}

template <typename Result, typename Call>
void MemoryJobStore::Run(Call call, Result done) {
  executor_.Post([call = std::move(call), done = std::move(done)]() mutable { done(call()); });
}

absl::StatusOr<MemoryJobStore::Job*> MemoryJobStore::Find(const JobId& id, const char* field) {
  constexpr size_t kShownId = 100;  // the client's text may be as long as a message
  const auto found = by_id_.find(id);
  if (found != by_id_.end() && found->second->second.hidden == Hidden::kNo) return &found->second->second;
  const bool expired =
      expired_.contains(id) || (found != by_id_.end() && found->second->second.hidden == Hidden::kExpired);
  if (!expired) return absl::NotFoundError(absl::StrCat(field, "no video \"", id.substr(0, kShownId), "\""));
  return WithErrorInfo(absl::NotFoundError(absl::StrCat(field, "video \"", id, "\" has expired")), "EXPIRED");
}

void MemoryJobStore::Store(Job& job, const v1::VideoEvent& event) {
  if (event.event_case() == v1::VideoEvent::EVENT_NOT_SET) return;
  job.events.push_back(event);
  listener_(event);
}

void MemoryJobStore::Hide(Job& job, Hidden how) {
  job.hidden = how;
  by_request_.erase(job.record.video.request_id());
}

template <typename Transition>
absl::Status MemoryJobStore::Change(Job& job, Transition transition) {
  JobRecord changed = job.record;
  v1::VideoEvent event;
  KINORA_RETURN_IF_ERROR(transition(clock_.Now(), changed, &event));
  job.record = std::move(changed);
  if (job.record.delete_requested && IsTerminal(job.record.video.state())) Hide(job, Hidden::kDeleted);
  Store(job, event);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Created>> MemoryJobStore::CreatedBefore(const v1::CreateVideoRequest& request,
                                                                     const std::string& fingerprint) {
  if (request.request_id().empty()) return std::nullopt;
  const auto known = by_request_.find(request.request_id());
  if (known == by_request_.end()) return std::nullopt;
  const Job& job = known->second->second;
  if (job.fingerprint != fingerprint) return RequestIdReused(request, job.record.video.id(), job.fingerprint);
  return Created{.video = job.record.video, .replayed = true};
}

void MemoryJobStore::Create(const v1::CreateVideoRequest& request, const v1::Generation& effective,
                            double estimated_seconds, Done<Created> done) {
  CreateAt(rules_.frontend, request, effective, estimated_seconds, std::move(done));
}

void MemoryJobStore::CreateAt(const FrontendId& client_at, const v1::CreateVideoRequest& request,
                              const v1::Generation& effective, double estimated_seconds, Done<Created> done) {
  Run(
      [this, client_at, request, effective, estimated_seconds]() -> absl::StatusOr<Created> {
        const std::string fingerprint = Fingerprint(request);
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(request, fingerprint));
        if (known.has_value()) return *std::move(known);
        v1::VideoEvent event;
        JobRecord record = NewJob(new_id_(), request, effective, estimated_seconds, clock_.Now(), &event);
        const auto at = jobs_.emplace(++last_ordinal_, Job{.record = std::move(record), .fingerprint = fingerprint});
        Job& job = at.first->second;
        job.client_at = client_at;
        by_id_[job.record.video.id()] = at.first;
        if (!request.request_id().empty()) by_request_[request.request_id()] = at.first;
        Store(job, event);
        return Created{.video = job.record.video};
      },
      std::move(done));
}

void MemoryJobStore::FindCreated(const v1::CreateVideoRequest& request, Done<Created> done) {
  Run(
      [this, request]() -> absl::StatusOr<Created> {
        KINORA_ASSIGN_OR_RETURN(std::optional<Created> known, CreatedBefore(request, Fingerprint(request)));
        if (!known.has_value()) return absl::NotFoundError("request_id: no job was created with it");
        return *std::move(known);
      },
      std::move(done));
}

void MemoryJobStore::Claim(const JobId& id, std::string_view owner, absl::Duration lease, Done<Claimed> done) {
  Run(
      [this, id, owner = std::string(owner), lease]() -> absl::StatusOr<Claimed> {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(id));
        KINORA_RETURN_IF_ERROR(Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
          return kinora::Claim(owner, lease, now, record, event);
        }));
        return Claimed{
            .attempt = CurrentAttempt(job->record), .video = job->record.video, .resume = job->record.resume};
      },
      std::move(done));
}

void MemoryJobStore::Renew(const Attempt& attempt, absl::Duration lease, Done<Lease> done) {
  Run(
      [this, attempt, lease]() -> absl::StatusOr<Lease> {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(attempt.id));
        KINORA_RETURN_IF_ERROR(Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent*) {
          return kinora::Renew(attempt, lease, now, record);
        }));
        return Lease{.expiry = job->record.lease_expiry, .cancel_requested = job->record.cancel_requested};
      },
      std::move(done));
}

void MemoryJobStore::Append(const Attempt& attempt, const v1::VideoEvent& added, Finished done) {
  Run(
      [this, attempt, added]() -> absl::Status {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(attempt.id));
        return Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
          return kinora::Append(attempt, added, now, record, event);
        });
      },
      std::move(done));
}

void MemoryJobStore::PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point,
                                    Done<std::optional<v1::ResumeMark>> done) {
  Run(
      [this, attempt, point]() -> absl::StatusOr<std::optional<v1::ResumeMark>> {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(attempt.id));
        std::optional<v1::ResumeMark> replaced = job->record.resume;
        KINORA_RETURN_IF_ERROR(Change(*job, [&](absl::Time, JobRecord& record, v1::VideoEvent*) {
          return kinora::PutResumePoint(attempt, point, record);
        }));
        return replaced;
      },
      std::move(done));
}

void MemoryJobStore::Finish(const Attempt& attempt, const Outcome& outcome, Finished done) {
  Run(
      [this, attempt, outcome]() -> absl::Status {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(attempt.id));
        return Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
          return kinora::Finish(attempt, outcome, rules_, now, record, event);
        });
      },
      std::move(done));
}

void MemoryJobStore::Requeue(const Attempt& attempt, const Release& release, Done<v1::Video> done) {
  Run(
      [this, attempt, release]() -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(attempt.id));
        KINORA_RETURN_IF_ERROR(Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
          return kinora::Requeue(attempt, release, rules_, now, record, event);
        }));
        return job->record.video;
      },
      std::move(done));
}

void MemoryJobStore::Cancel(const JobId& id, Done<v1::Video> done) {
  Run(
      [this, id]() -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(id));
        KINORA_RETURN_IF_ERROR(Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
          return kinora::Cancel(rules_, now, record, event);
        }));
        return job->record.video;
      },
      std::move(done));
}

void MemoryJobStore::FailQueued(const JobId& id, const google::rpc::Status& error, Done<v1::Video> done) {
  Run(
      [this, id, error]() -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(id));
        KINORA_RETURN_IF_ERROR(Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
          return kinora::FailQueued(error, rules_, now, record, event);
        }));
        return job->record.video;
      },
      std::move(done));
}

void MemoryJobStore::Delete(const JobId& id, Finished done) {
  Run(
      [this, id]() -> absl::Status {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(id));
        const v1::Video::State state = job->record.video.state();
        if (!IsTerminal(state)) {
          return absl::FailedPreconditionError(
              absl::StrCat(id, " is ", v1::Video::State_Name(state), ": cancel it first"));
        }
        Hide(*job, Hidden::kDeleted);
        return absl::OkStatus();
      },
      std::move(done));
}

void MemoryJobStore::CancelAndDelete(const JobId& id, Done<bool> done) {
  Run(
      [this, id]() -> absl::StatusOr<bool> {
        KINORA_ASSIGN_OR_RETURN(Job * job, Find(id));
        if (IsTerminal(job->record.video.state())) {
          Hide(*job, Hidden::kDeleted);
          return true;
        }
        KINORA_RETURN_IF_ERROR(Change(*job, [&](absl::Time now, JobRecord& record, v1::VideoEvent* event) {
          return kinora::CancelAndDelete(rules_, now, record, event);
        }));
        return IsTerminal(job->record.video.state());
      },
      std::move(done));
}

void MemoryJobStore::Purge(const JobId& id, Finished done) {
  Run(
      [this, id]() -> absl::Status {
        const auto found = by_id_.find(id);
        if (found == by_id_.end() || found->second->second.hidden == Hidden::kNo) return absl::OkStatus();
        if (found->second->second.hidden == Hidden::kExpired) expired_[id] = clock_.Now();
        jobs_.erase(found->second);
        by_id_.erase(found);
        return absl::OkStatus();
      },
      std::move(done));
}

void MemoryJobStore::Get(const JobId& id, Done<v1::Video> done) {
  Run(
      [this, id]() -> absl::StatusOr<v1::Video> {
        KINORA_ASSIGN_OR_RETURN(const Job* job, Find(id));
        return job->record.video;
      },
      std::move(done));
}

absl::StatusOr<JobPage> MemoryJobStore::ListPage(const ListOptions& options) {
  std::optional<int64_t> after;
  if (!options.after_id.empty()) {
    KINORA_RETURN_IF_ERROR(Find(options.after_id, "after_id: ").status());
    after = by_id_.at(options.after_id)->first;
  }
  KINORA_ASSIGN_OR_RETURN(const int64_t begin, PageBegin(options, after));
  JobPage page;
  int64_t last = 0;
  size_t bytes = 0;
  const auto add = [&](const Jobs::value_type& entry) {  // false: the page is full
    const v1::Video& video = entry.second.record.video;
    const bool in_state = options.states.empty() || std::find(options.states.begin(), options.states.end(),
                                                              video.state()) != options.states.end();
    if (entry.second.hidden != Hidden::kNo || !in_state || !absl::StartsWith(video.id(), options.id_prefix) ||
        !IsSearchedFor(video, options)) {
      return true;
    }
    if (std::ssize(page.videos) == options.page_size || bytes > kMaxPageBytes) {
      page.next_page_token = PageToken(options.ascending, last);
      return false;
    }
    last = entry.first;
    bytes += video.ByteSizeLong();
    page.videos.push_back(video);
    return true;
  };
  if (options.ascending) {
    for (auto it = jobs_.upper_bound(begin); it != jobs_.end() && add(*it);) ++it;
  } else {
    for (auto it = std::make_reverse_iterator(jobs_.lower_bound(begin)); it != jobs_.rend() && add(*it);) ++it;
  }
  return page;
}

void MemoryJobStore::List(const ListOptions& options, Done<JobPage> done) {
  Run([this, options] { return ListPage(options); }, std::move(done));
}

void MemoryJobStore::EventsAfter(const JobId& id, int64_t sequence, Done<JobHistory> done) {
  Run(
      [this, id, sequence]() -> absl::StatusOr<JobHistory> {
        KINORA_ASSIGN_OR_RETURN(const Job* job, Find(id));
        JobHistory history{.video = job->record.video, .events = {}, .last_sequence = job->record.last_sequence};
        std::copy_if(job->events.begin(), job->events.end(), std::back_inserter(history.events),
                     [&](const v1::VideoEvent& event) { return event.sequence() > sequence; });
        return history;
      },
      std::move(done));
}

std::vector<UnfinishedJob> MemoryJobStore::AllUnfinished() const {
  std::vector<UnfinishedJob> jobs;
  for (const auto& [ordinal, job] : jobs_) {
    const JobRecord& record = job.record;
    if (job.hidden != Hidden::kNo || IsTerminal(record.video.state())) continue;
    jobs.push_back({.video = record.video,
                    .scheduling = record.scheduling,
                    .attempt = CurrentAttempt(record),
                    .lease_expiry = record.lease_expiry,
                    .detach = record.detach,
                    .resume = record.resume,
                    .cancel_requested = record.cancel_requested});
  }
  return jobs;
}

void MemoryJobStore::Unfinished(Done<std::vector<UnfinishedJob>> done) {
  Run([this]() -> absl::StatusOr<std::vector<UnfinishedJob>> { return AllUnfinished(); }, std::move(done));
}

void MemoryJobStore::LostRuns(const FrontendId& owner, Done<std::vector<UnfinishedJob>> done) {
  Run(
      [this, owner]() -> absl::StatusOr<std::vector<UnfinishedJob>> {
        std::vector<UnfinishedJob> jobs = AllUnfinished();
        std::erase_if(jobs, [&](const UnfinishedJob& job) {
          return job.attempt.number == 0 || job.attempt.owner == owner || job.lease_expiry > clock_.Now();
        });
        return jobs;
      },
      std::move(done));
}

void MemoryJobStore::PutFrontend(const FrontendEntry& frontend, absl::Duration lease, Finished done) {
  Run(
      [this, id = frontend.id, lease] {
        frontends_[id] = clock_.Now() + lease;
        return absl::OkStatus();
      },
      std::move(done));
}

void MemoryJobStore::EndOtherLeases(const FrontendId& id, Finished done) {
  Run(
      [this, id] {
        std::erase_if(frontends_, [&](const auto& frontend) { return frontend.first != id; });
        for (auto& [ordinal, job] : jobs_) {
          JobRecord& record = job.record;
          if (!record.owner.empty() && record.owner != id) record.lease_expiry = clock_.Now();
        }
        return absl::OkStatus();
      },
      std::move(done));
}

void MemoryJobStore::TakeLostClients(const FrontendId& id, Done<std::vector<JobId>> done) {
  Run(
      [this, id]() -> absl::StatusOr<std::vector<JobId>> {
        std::vector<JobId> taken;
        for (auto& [ordinal, job] : jobs_) {
          const v1::Video& video = job.record.video;
          if (job.record.detach || job.hidden != Hidden::kNo || IsTerminal(video.state())) continue;
          const auto holder = frontends_.find(job.client_at);
          if (holder != frontends_.end() && holder->second > clock_.Now()) continue;
          job.client_at = id;
          taken.push_back(video.id());
        }
        return taken;
      },
      std::move(done));
}

void MemoryJobStore::Unknown(std::vector<JobId> ids, Done<std::vector<JobId>> done) {
  Run(
      [this, ids = std::move(ids)]() mutable -> absl::StatusOr<std::vector<JobId>> {
        std::erase_if(ids, [this](const JobId& id) { return by_id_.contains(id); });
        return std::move(ids);
      },
      std::move(done));
}

void MemoryJobStore::SweepExpired(absl::Time now, Done<std::vector<JobId>> done) {
  Run(
      [this, now]() -> absl::StatusOr<std::vector<JobId>> {
        std::vector<JobId> hidden;
        for (auto& [ordinal, job] : jobs_) {
          const v1::Video& video = job.record.video;
          if (job.hidden == Hidden::kNo && IsTerminal(video.state()) && FromProto(video.expire_time()) <= now) {
            Hide(job, Hidden::kExpired);
          }
          if (job.hidden != Hidden::kNo) hidden.push_back(video.id());
        }
        std::erase_if(expired_, [now](const auto& entry) { return entry.second < now - kKeepExpiredIds; });
        return hidden;
      },
      std::move(done));
}

void MemoryJobStore::Flush() {
  absl::Notification reached;
  executor_.Post([&] { reached.Notify(); });
  reached.WaitForNotification();
}

}  // namespace kinora
