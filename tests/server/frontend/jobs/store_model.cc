#include "tests/server/frontend/jobs/store_model.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

constexpr absl::Duration kExpiredIsKnownFor = absl::Hours(24 * 30);

bool HasEnded(const v1::Video& video) {
  return video.state() == v1::Video::COMPLETED || video.state() == v1::Video::FAILED ||
         video.state() == v1::Video::CANCELLED;
}

v1::CreateVideoRequest ContentOf(v1::CreateVideoRequest request) {
  request.clear_request_id();
  request.clear_detach();
  return request;
}

void NoteReached(const v1::Progress& progress, v1::Video& video) {
  if (!progress.stage().empty()) *video.mutable_progress() = progress;
  video.mutable_progress()->clear_remaining();
}

bool Matches(const v1::Video& video, const ListOptions& options) {
  const auto& states = options.states;
  if (!states.empty() && std::find(states.begin(), states.end(), video.state()) == states.end()) return false;
  if (!absl::StartsWith(video.id(), options.id_prefix)) return false;
  for (const auto& [name, value] : options.labels) {
    if (!video.labels().contains(name) || video.labels().at(name) != value) return false;
  }
  const std::string prompt = absl::AsciiStrToLower(video.effective().prompt());
  return std::all_of(options.words.begin(), options.words.end(),
                     [&](const std::string& word) { return absl::StrContains(prompt, word); });
}

}  // namespace

const StoreModel::Job* StoreModel::Find(const JobId& id) const {
  const auto it = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.video.id() == id; });
  return it == jobs_.end() ? nullptr : &*it;
}

absl::Status StoreModel::NotFound(const JobId& id) const {
  const Job* job = Find(id);
  const bool expired = expired_.contains(id) || (job != nullptr && job->seen == Seen::kExpired);
  return expired ? WithErrorInfo(absl::NotFoundError("expired"), "EXPIRED") : absl::NotFoundError("none");
}

const StoreModel::Job* StoreModel::CreatedWith(const std::string& request_id) const {
  for (const Job& job : jobs_) {
    if (!request_id.empty() && job.seen == Seen::kShown && job.video.request_id() == request_id) return &job;
  }
  return nullptr;
}

absl::StatusOr<StoreModel::Job*> StoreModel::Shown(const JobId& id) {
  Job* job = Find(id);
  if (job == nullptr || job->seen != Seen::kShown) return NotFound(id);
  return job;
}

absl::StatusOr<StoreModel::Job*> StoreModel::Current(const Attempt& attempt) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Shown(attempt.id));
  if (job->owner.empty() || job->owner != attempt.owner || job->video.attempt() != attempt.number) {
    return absl::AbortedError("not the current attempt");
  }
  return job;
}

v1::VideoEvent StoreModel::NewEvent(const Job& job) const {
  v1::VideoEvent event;
  event.set_video_id(job.video.id());
  event.set_sequence(static_cast<int64_t>(job.events.size()) + 1);
  *event.mutable_time() = ToProto(clock_.Now());
  return event;
}

void StoreModel::AddEvent(Job& job, v1::VideoEvent event) {
  job.events.push_back(event);
  heard_.push_back(std::move(event));
}

void StoreModel::AddStateEvent(Job& job) {
  v1::VideoEvent event = NewEvent(job);
  *event.mutable_state() = job.video;
  AddEvent(job, std::move(event));
}

void StoreModel::CountQueueTime(Job& job) const {
  v1::Usage& usage = *job.video.mutable_usage();
  usage.set_queue_seconds(usage.queue_seconds() + absl::ToDoubleSeconds(clock_.Now() - job.queued_since));
}

void StoreModel::SetResume(Job& job, std::optional<v1::ResumeMark> resume) {
  job.resume = std::move(resume);
  job.video.clear_resume_point();
  if (!job.resume) return;
  const v1::ResumePoint& point = job.resume->point();
  v1::Progress& shown = *job.video.mutable_resume_point();
  shown.set_stage(point.part() == 0 ? "denoise" : absl::StrCat("denoise_", point.part()));
  shown.set_step(point.step());
  shown.set_total_steps(point.total_steps());
  shown.set_fraction(point.fraction());
}

void StoreModel::End(Job& job, v1::Video::State state) {
  absl::Duration ttl = rules_.default_ttl;
  if (job.video.output().has_ttl()) ttl = FromProto(job.video.output().ttl());
  if (job.delete_at_end) ttl = absl::ZeroDuration();
  job.video.set_state(state);
  job.owner.clear();
  SetResume(job, std::nullopt);
  *job.video.mutable_end_time() = ToProto(clock_.Now());
  *job.video.mutable_expire_time() = ToProto(clock_.Now() + ttl);
  for (auto& artifact : *job.video.mutable_artifacts()) *artifact.mutable_expire_time() = job.video.expire_time();
  v1::VideoEvent event = NewEvent(job);
  *event.mutable_terminal() = job.video;
  AddEvent(job, std::move(event));
  if (job.delete_at_end) job.seen = Seen::kDeleted;
}

absl::StatusOr<Created> StoreModel::FindCreated(const v1::CreateVideoRequest& request) const {
  const Job* known = CreatedWith(request.request_id());
  if (known == nullptr) return absl::NotFoundError("no job has this request_id");
  if (!google::protobuf::util::MessageDifferencer::Equals(known->content, ContentOf(request))) {
    return WithErrorInfo(absl::AlreadyExistsError("other content"), "REQUEST_ID_REUSED");
  }
  return Created{.video = known->video, .replayed = true};
}

absl::StatusOr<Created> StoreModel::Create(const v1::CreateVideoRequest& request, const v1::Generation& effective,
                                           double seconds, const JobId& new_id) {
  absl::StatusOr<Created> known = FindCreated(request);
  if (!absl::IsNotFound(known.status())) return known;
  Job job;
  job.content = ContentOf(request);
  job.scheduling = request.scheduling();
  job.detach = request.detach();
  job.client_at = rules_.frontend;
  job.queued_since = clock_.Now();
  job.video.set_id(new_id);
  job.video.set_state(v1::Video::QUEUED);
  job.video.set_model(request.model());
  job.video.set_request_id(request.request_id());
  job.video.set_estimated_seconds(seconds);
  *job.video.mutable_effective() = effective;
  *job.video.mutable_labels() = request.labels();
  *job.video.mutable_output() = request.output();
  *job.video.mutable_create_time() = ToProto(clock_.Now());
  AddStateEvent(job);
  jobs_.push_back(job);
  return Created{.video = job.video};
}

absl::StatusOr<Claimed> StoreModel::Claim(const JobId& id, const std::string& owner, absl::Duration lease) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Shown(id));
  if (job->video.state() != v1::Video::QUEUED) return absl::FailedPreconditionError("not queued");
  job->owner = owner;
  job->lease_expiry = clock_.Now() + lease;
  job->video.set_state(v1::Video::RUNNING);
  job->video.set_attempt(job->video.attempt() + 1);
  *job->video.mutable_start_time() = ToProto(clock_.Now());
  CountQueueTime(*job);
  AddStateEvent(*job);
  return Claimed{.attempt = NewestAttempt(id), .video = job->video, .resume = job->resume};
}

absl::StatusOr<Lease> StoreModel::Renew(const Attempt& attempt, absl::Duration lease) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Current(attempt));
  job->lease_expiry = clock_.Now() + lease;
  return Lease{.expiry = job->lease_expiry, .cancel_requested = job->cancel_requested};
}

absl::Status StoreModel::Append(const Attempt& attempt, const v1::VideoEvent& added) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Current(attempt));
  const v1::Video::State state = added.state().state();
  if (added.has_stage()) {
    *job->video.mutable_progress() = added.stage();
    v1::VideoEvent event = NewEvent(*job);
    *event.mutable_stage() = added.stage();
    AddEvent(*job, std::move(event));
  } else if (added.has_state() && (state == v1::Video::RUNNING || state == v1::Video::FINALIZING)) {
    job->video.set_state(state);
    if (added.state().has_resolved()) *job->video.mutable_resolved() = added.state().resolved();
    AddStateEvent(*job);
  } else {
    return absl::InvalidArgumentError("no event of a run");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::ResumeMark>> StoreModel::PutResumePoint(const Attempt& attempt,
                                                                         const v1::ResumePoint& point) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Current(attempt));
  const std::optional<v1::ResumeMark> replaced = job->resume;
  SetResume(*job, std::nullopt);
  if (point.id().empty()) return replaced;
  v1::ResumeMark mark;
  mark.set_video_id(attempt.id);
  mark.set_attempt(attempt.number);
  *mark.mutable_point() = point;
  SetResume(*job, std::move(mark));
  return replaced;
}

absl::Status StoreModel::Finish(const Attempt& attempt, const Outcome& outcome) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Current(attempt));
  v1::Video& video = job->video;
  if (outcome.state == v1::Video::COMPLETED) {
    video.mutable_progress()->set_fraction(1);
    video.mutable_progress()->clear_remaining();
  } else if (outcome.state == v1::Video::FAILED || outcome.state == v1::Video::CANCELLED) {
    NoteReached(outcome.progress, video);
    if (outcome.state == v1::Video::FAILED) *video.mutable_error() = outcome.error;
  } else {
    return absl::InvalidArgumentError("not a terminal state");
  }
  const double queue_seconds = video.usage().queue_seconds();
  *video.mutable_usage() = outcome.usage;
  video.mutable_usage()->set_queue_seconds(queue_seconds);
  video.clear_artifacts();
  for (const v1::Artifact& artifact : outcome.artifacts) *video.add_artifacts() = artifact;
  End(*job, outcome.state);
  return absl::OkStatus();
}

absl::StatusOr<v1::Video> StoreModel::Requeue(const Attempt& attempt, const Release& release) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Current(attempt));
  if (release.if_lost && clock_.Now() < job->lease_expiry) return absl::AbortedError("it has a lease");
  if (release.lost_group) ++job->lost_groups;
  if (release.preempted) job->video.set_preemptions(job->video.preemptions() + 1);
  const bool earlier = job->resume && job->resume->attempt() < attempt.number;
  if (release.drop_earlier_point && earlier) SetResume(*job, std::nullopt);
  if (job->cancel_requested) {
    NoteReached(release.progress, job->video);
    End(*job, v1::Video::CANCELLED);
  } else if (release.lost_group && job->lost_groups >= rules_.max_lost_groups) {
    NoteReached(release.progress, job->video);
    *job->video.mutable_error() = ToRpcStatus(WithErrorInfo(absl::AbortedError(""), "WORKER_GROUP_LOST"));
    End(*job, v1::Video::FAILED);
  } else {
    job->owner.clear();
    job->queued_since = clock_.Now();
    job->video.set_state(v1::Video::QUEUED);
    job->video.clear_progress();
    AddStateEvent(*job);
  }
  return job->video;
}

absl::StatusOr<v1::Video> StoreModel::Cancel(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Shown(id));
  if (job->video.state() == v1::Video::QUEUED) {
    CountQueueTime(*job);
    End(*job, v1::Video::CANCELLED);
  } else if (!HasEnded(job->video)) {
    job->cancel_requested = true;
  }
  return job->video;
}

absl::StatusOr<v1::Video> StoreModel::FailQueued(const JobId& id, const google::rpc::Status& error) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Shown(id));
  if (job->video.state() != v1::Video::QUEUED) return absl::FailedPreconditionError("not queued");
  CountQueueTime(*job);
  *job->video.mutable_error() = error;
  End(*job, v1::Video::FAILED);
  return job->video;
}

absl::Status StoreModel::Delete(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Shown(id));
  if (!HasEnded(job->video)) return absl::FailedPreconditionError("not ended");
  job->seen = Seen::kDeleted;
  return absl::OkStatus();
}

absl::StatusOr<bool> StoreModel::CancelAndDelete(const JobId& id) {
  KINORA_ASSIGN_OR_RETURN(Job * job, Shown(id));
  if (HasEnded(job->video)) {
    job->seen = Seen::kDeleted;
  } else {
    job->delete_at_end = true;
    KINORA_RETURN_IF_ERROR(Cancel(id).status());
  }
  return job->seen == Seen::kDeleted;
}

absl::Status StoreModel::Purge(const JobId& id) {
  const Job* job = Find(id);
  if (job == nullptr || job->seen == Seen::kShown) return absl::OkStatus();
  if (job->seen == Seen::kExpired) expired_[id] = clock_.Now();
  jobs_.erase(jobs_.begin() + (job - jobs_.data()));
  return absl::OkStatus();
}

absl::StatusOr<v1::Video> StoreModel::Get(const JobId& id) const {
  const Job* job = Find(id);
  if (job == nullptr || job->seen != Seen::kShown) return NotFound(id);
  return job->video;
}

absl::StatusOr<std::vector<v1::Video>> StoreModel::List(const ListOptions& options) const {
  std::vector<v1::Video> videos;
  for (const Job& job : jobs_) {
    if (job.seen == Seen::kShown) videos.push_back(job.video);
  }
  if (!options.ascending) std::reverse(videos.begin(), videos.end());
  if (!options.after_id.empty()) {
    const auto after = std::find_if(videos.begin(), videos.end(),
                                    [&](const v1::Video& video) { return video.id() == options.after_id; });
    if (after == videos.end()) return NotFound(options.after_id);
    videos.erase(videos.begin(), after + 1);
  }
  std::erase_if(videos, [&](const v1::Video& video) { return !Matches(video, options); });
  return videos;
}

absl::StatusOr<JobHistory> StoreModel::EventsAfter(const JobId& id, int64_t sequence) const {
  KINORA_ASSIGN_OR_RETURN(v1::Video video, Get(id));
  JobHistory history{.video = std::move(video), .events = Find(id)->events};
  history.last_sequence = static_cast<int64_t>(history.events.size());
  std::erase_if(history.events, [&](const v1::VideoEvent& event) { return event.sequence() <= sequence; });
  return history;
}

std::vector<UnfinishedJob> StoreModel::Unfinished() const {
  std::vector<UnfinishedJob> unfinished;
  for (const Job& job : jobs_) {
    if (job.seen != Seen::kShown || HasEnded(job.video)) continue;
    unfinished.push_back({.video = job.video,
                          .scheduling = job.scheduling,
                          .attempt = {.id = job.video.id(), .number = 0, .owner = ""},
                          .lease_expiry = job.lease_expiry,
                          .detach = job.detach,
                          .resume = job.resume,
                          .cancel_requested = job.cancel_requested});
    if (!job.owner.empty()) unfinished.back().attempt = NewestAttempt(job.video.id());
  }
  return unfinished;
}

std::vector<UnfinishedJob> StoreModel::LostRuns(const FrontendId& owner) const {
  std::vector<UnfinishedJob> lost = Unfinished();
  std::erase_if(lost, [&](const UnfinishedJob& job) {
    return job.attempt.number == 0 || job.attempt.owner == owner || clock_.Now() < job.lease_expiry;
  });
  return lost;
}

void StoreModel::EndOtherLeases(const FrontendId& id) {
  std::erase_if(frontends_, [&](const auto& frontend) { return frontend.first != id; });
  for (Job& job : jobs_) {
    if (!job.owner.empty() && job.owner != id) job.lease_expiry = clock_.Now();
  }
}

std::vector<JobId> StoreModel::TakeLostClients(const FrontendId& id) {
  std::vector<JobId> taken;
  for (Job& job : jobs_) {
    if (job.detach || job.seen != Seen::kShown || HasEnded(job.video)) continue;
    const auto holder = frontends_.find(job.client_at);
    if (holder != frontends_.end() && clock_.Now() < holder->second) continue;
    job.client_at = id;
    taken.push_back(job.video.id());
  }
  return taken;
}

std::vector<JobId> StoreModel::Unknown(const std::vector<JobId>& ids) const {
  std::vector<JobId> unknown = ids;
  std::erase_if(unknown, [this](const JobId& id) { return Find(id) != nullptr; });
  return unknown;
}

std::vector<JobId> StoreModel::SweepExpired(absl::Time now) {
  std::vector<JobId> hidden;
  for (Job& job : jobs_) {
    if (job.seen == Seen::kShown && HasEnded(job.video) && FromProto(job.video.expire_time()) <= now) {
      job.seen = Seen::kExpired;
    }
    if (job.seen != Seen::kShown) hidden.push_back(job.video.id());
  }
  std::erase_if(expired_, [&](const auto& job) { return job.second < now - kExpiredIsKnownFor; });
  return hidden;
}

void StoreModel::AddSpeed(const std::string& place, const v1::RunSpeed& run) {
  std::vector<v1::RunSpeed>& runs = speeds[place];
  runs.push_back(run);
  if (runs.size() > CatalogueStore::kSpeedsKept) runs.erase(runs.begin());
}

Attempt StoreModel::NewestAttempt(const JobId& id) const {
  const Job* job = Find(id);
  if (job == nullptr) return {.id = id, .number = 0, .owner = ""};
  return {.id = id, .number = job->video.attempt(), .owner = job->owner};
}

}  // namespace kinora
