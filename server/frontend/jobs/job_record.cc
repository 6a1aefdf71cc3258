#include "server/frontend/jobs/job_record.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/sha256.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"

namespace kinora {
namespace {

// Sets the video id, the record's next sequence and the time of `event`.
void Stamp(absl::Time now, JobRecord& record, v1::VideoEvent* event) {
  event->set_video_id(record.video.id());
  event->set_sequence(++record.last_sequence);
  *event->mutable_time() = ToProto(now);
}

void StampState(absl::Time now, JobRecord& record, v1::VideoEvent* event) {
  Stamp(now, record, event);
  *event->mutable_state() = record.video;
}

void ForgetPoint(JobRecord& record) {
  record.resume.reset();
  record.video.clear_resume_point();
}

// Enters a terminal state: sets the times, ends the lease and fills in the event.
void End(v1::Video::State state, const JobRules& rules, absl::Time now, JobRecord& record, v1::VideoEvent* event) {
  v1::Video& video = record.video;
  const absl::Duration ttl = record.delete_requested    ? absl::ZeroDuration()
                             : video.output().has_ttl() ? FromProto(video.output().ttl())
                                                        : rules.default_ttl;
  video.set_state(state);
  *video.mutable_end_time() = ToProto(now);
  *video.mutable_expire_time() = ToProto(now + ttl);
  for (v1::Artifact& artifact : *video.mutable_artifacts()) *artifact.mutable_expire_time() = video.expire_time();
  record.owner.clear();
  ForgetPoint(record);
  Stamp(now, record, event);
  *event->mutable_terminal() = video;
}

absl::Status CheckCurrent(const Attempt& attempt, const JobRecord& record) {
  const bool current =
      !record.owner.empty() && record.owner == attempt.owner && record.video.attempt() == attempt.number;
  if (current) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("attempt ", attempt.number, " of ", record.video.id(), " by ", attempt.owner,
                                         " is not the current one (attempt ", record.video.attempt(), ", ",
                                         v1::Video::State_Name(record.video.state()), ")"));
}

absl::Status CheckQueued(const JobRecord& record) {
  if (record.video.state() == v1::Video::QUEUED) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(record.video.id(), " is ", v1::Video::State_Name(record.video.state()), ", not QUEUED"));
}

void CountQueueTime(absl::Time now, JobRecord& record) {
  v1::Usage& usage = *record.video.mutable_usage();
  usage.set_queue_seconds(usage.queue_seconds() + absl::ToDoubleSeconds(now - record.queued_since));
}

// Sets how far the job came: `progress` if set, otherwise the last stored stage.
void SetReached(const v1::Progress& progress, v1::Video& video) {
  if (!progress.stage().empty()) *video.mutable_progress() = progress;
  video.mutable_progress()->clear_remaining();
}

google::rpc::Status GroupLost(std::string_view why, int times) {
  return ToRpcStatus(WithErrorInfo(
      absl::AbortedError(absl::StrCat("the worker group was lost ", times, " times, last: ", std::string(why))),
      "WORKER_GROUP_LOST", {{"retryable", "true"}}));
}

}  // namespace

bool IsTerminal(v1::Video::State state) {
  return state == v1::Video::COMPLETED || state == v1::Video::FAILED || state == v1::Video::CANCELLED;
}

bool DeletedAtEnd(const v1::Video& video) {
  return IsTerminal(video.state()) && FromProto(video.expire_time()) == FromProto(video.end_time());
}

Attempt CurrentAttempt(const JobRecord& record) {
  if (record.owner.empty()) return {.id = record.video.id(), .number = 0, .owner = ""};
  return {.id = record.video.id(), .number = record.video.attempt(), .owner = record.owner};
}

std::string Fingerprint(const v1::CreateVideoRequest& request) {
  v1::CreateVideoRequest content = request;
  content.clear_request_id();
  content.clear_detach();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps sorted by key
    content.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

absl::Status RequestIdReused(const v1::CreateVideoRequest& request, const JobId& id, const std::string& fingerprint) {
  return WithErrorInfo(absl::AlreadyExistsError(absl::StrCat("request_id: \"", request.request_id(),
                                                             "\" was already used for a different request")),
                       "REQUEST_ID_REUSED", {{"video_id", id}, {"fingerprint", fingerprint}});
}

JobRecord NewJob(const JobId& id, const v1::CreateVideoRequest& request, const v1::Generation& effective,
                 double estimated_seconds, absl::Time now, v1::VideoEvent* event) {
  JobRecord record;
  record.scheduling = request.scheduling();
  record.detach = request.detach();
  record.queued_since = now;
  v1::Video& video = record.video;
  video.set_id(id);
  video.set_state(v1::Video::QUEUED);
  *video.mutable_effective() = effective;
  video.set_model(request.model());
  video.set_request_id(request.request_id());
  *video.mutable_labels() = request.labels();
  *video.mutable_output() = request.output();
  video.set_estimated_seconds(estimated_seconds);
  *video.mutable_create_time() = ToProto(now);
  StampState(now, record, event);
  return record;
}

absl::Status Claim(std::string_view owner, absl::Duration lease, absl::Time now, JobRecord& record,
                   v1::VideoEvent* event) {
  KINORA_RETURN_IF_ERROR(CheckQueued(record));
  record.owner = std::string(owner);
  record.lease_expiry = now + lease;
  v1::Video& video = record.video;
  video.set_state(v1::Video::RUNNING);
  video.set_attempt(video.attempt() + 1);
  *video.mutable_start_time() = ToProto(now);
  CountQueueTime(now, record);
  StampState(now, record, event);
  return absl::OkStatus();
}

absl::Status Renew(const Attempt& attempt, absl::Duration lease, absl::Time now, JobRecord& record) {
  KINORA_RETURN_IF_ERROR(CheckCurrent(attempt, record));
  record.lease_expiry = now + lease;
  return absl::OkStatus();
}

absl::Status Append(const Attempt& attempt, const v1::VideoEvent& added, absl::Time now, JobRecord& record,
                    v1::VideoEvent* event) {
  KINORA_RETURN_IF_ERROR(CheckCurrent(attempt, record));
  if (added.has_stage()) {
    *record.video.mutable_progress() = added.stage();
    Stamp(now, record, event);
    *event->mutable_stage() = added.stage();
    return absl::OkStatus();
  }
  const v1::Video::State state = added.state().state();
  if (!added.has_state() || (state != v1::Video::RUNNING && state != v1::Video::FINALIZING)) {
    return absl::InvalidArgumentError("event: only a stage, RUNNING or FINALIZING can be appended");
  }
  record.video.set_state(state);
  if (added.state().has_resolved()) *record.video.mutable_resolved() = added.state().resolved();
  StampState(now, record, event);
  return absl::OkStatus();
}

absl::Status PutResumePoint(const Attempt& attempt, const v1::ResumePoint& point, JobRecord& record) {
  KINORA_RETURN_IF_ERROR(CheckCurrent(attempt, record));
  ForgetPoint(record);
  if (point.id().empty()) return absl::OkStatus();
  v1::ResumeMark& mark = record.resume.emplace();
  mark.set_video_id(attempt.id);
  mark.set_attempt(attempt.number);
  *mark.mutable_point() = point;
  v1::Progress& shown = *record.video.mutable_resume_point();
  shown.set_stage(std::string(StageOf(point).name()));
  shown.set_step(point.step());
  shown.set_total_steps(point.total_steps());
  shown.set_fraction(point.fraction());
  return absl::OkStatus();
}

absl::Status Finish(const Attempt& attempt, const Outcome& outcome, const JobRules& rules, absl::Time now,
                    JobRecord& record, v1::VideoEvent* event) {
  KINORA_RETURN_IF_ERROR(CheckCurrent(attempt, record));
  if (!IsTerminal(outcome.state)) return absl::InvalidArgumentError("outcome.state: not a terminal state");
  v1::Video& video = record.video;
  if (outcome.state == v1::Video::FAILED) *video.mutable_error() = outcome.error;
  if (outcome.state == v1::Video::COMPLETED) {
    video.mutable_progress()->set_fraction(1);
    video.mutable_progress()->clear_remaining();
  } else {
    SetReached(outcome.progress, video);
  }
  video.mutable_artifacts()->Assign(outcome.artifacts.begin(), outcome.artifacts.end());
  const double queue_seconds = video.usage().queue_seconds();
  *video.mutable_usage() = outcome.usage;
  video.mutable_usage()->set_queue_seconds(queue_seconds);
  End(outcome.state, rules, now, record, event);
  return absl::OkStatus();
}

absl::Status Requeue(const Attempt& attempt, const Release& release, const JobRules& rules, absl::Time now,
                     JobRecord& record, v1::VideoEvent* event) {
  KINORA_RETURN_IF_ERROR(CheckCurrent(attempt, record));
  if (release.if_lost && record.lease_expiry > now) {
    return absl::AbortedError(absl::StrCat("attempt ", attempt.number, " of ", attempt.id, " has a lease"));
  }
  record.lost_groups += release.lost_group ? 1 : 0;
  v1::Video& video = record.video;
  if (release.preempted) video.set_preemptions(video.preemptions() + 1);
  if (release.drop_earlier_point && record.resume && record.resume->attempt() != attempt.number) ForgetPoint(record);
  if (record.cancel_requested) {
    SetReached(release.progress, video);
    End(v1::Video::CANCELLED, rules, now, record, event);
  } else if (release.lost_group && record.lost_groups >= rules.max_lost_groups) {
    SetReached(release.progress, video);
    *video.mutable_error() = GroupLost(release.why, record.lost_groups);
    End(v1::Video::FAILED, rules, now, record, event);
  } else {
    record.owner.clear();
    record.queued_since = now;
    video.set_state(v1::Video::QUEUED);
    video.clear_progress();
    StampState(now, record, event);
  }
  return absl::OkStatus();
}

absl::Status Cancel(const JobRules& rules, absl::Time now, JobRecord& record, v1::VideoEvent* event) {
  if (record.video.state() == v1::Video::QUEUED) {
    CountQueueTime(now, record);
    End(v1::Video::CANCELLED, rules, now, record, event);
  } else if (!IsTerminal(record.video.state())) {
    record.cancel_requested = true;
  }
  return absl::OkStatus();
}

absl::Status CancelAndDelete(const JobRules& rules, absl::Time now, JobRecord& record, v1::VideoEvent* event) {
  if (IsTerminal(record.video.state())) return absl::FailedPreconditionError("the job has ended");
  record.delete_requested = true;
  return Cancel(rules, now, record, event);
}

absl::Status FailQueued(const google::rpc::Status& error, const JobRules& rules, absl::Time now, JobRecord& record,
                        v1::VideoEvent* event) {
  KINORA_RETURN_IF_ERROR(CheckQueued(record));
  CountQueueTime(now, record);
  *record.video.mutable_error() = error;
  End(v1::Video::FAILED, rules, now, record, event);
  return absl::OkStatus();
}

}  // namespace kinora
