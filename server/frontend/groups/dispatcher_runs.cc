// Dispatcher: a run from its start until its outcome is stored.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "server/common/metrics.h"
#include "server/common/stage_conversion.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/groups/artifact_intake.h"
#include "server/frontend/groups/dispatcher_impl.h"
#include "server/frontend/groups/dispatcher_resume.h"
#include "server/frontend/groups/dispatcher_sharing.h"
#include "server/frontend/groups/input_supply.h"
#include "server/request/input_refs.h"

namespace kinora {
namespace {

constexpr absl::Duration kShortestStoreRetry = absl::Seconds(1), kLongestStoreRetry = absl::Seconds(30);

void ReadOn(RunningJob& run) {
  for (const auto& link : std::exchange(run.held, {})) link->ReadOn();
}

// mark: a StageMark or a StepMark.
template <typename Mark>
void SetProgress(const Mark& mark, v1::Progress& progress) {
  progress.set_stage(std::string(StageOf(mark).name()));
  progress.set_total_steps(mark.total_steps());
  progress.set_fraction(mark.fraction());
  progress.clear_remaining();
  if (mark.remaining_seconds() >= 0) *progress.mutable_remaining() = ToProto(absl::Seconds(mark.remaining_seconds()));
}

}  // namespace

bool Dispatcher::Impl::StoreFails(const absl::Status& status) {
  const bool fails = absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
  if (fails) store_failing_since_ = std::min(store_failing_since_, loop_->Now());
  if (status.ok()) store_failing_since_ = absl::InfiniteFuture();
  return fails;
}

absl::Duration Dispatcher::Impl::StoreRetryPause() const {
  return std::clamp(loop_->Now() - store_failing_since_, kShortestStoreRetry, kLongestStoreRetry);
}

void Dispatcher::Impl::CountRuns() {
  if (metrics_ != nullptr) metrics_->jobs_running.Set(static_cast<double>(runs_.size()));
  if (drained_ != nullptr && runs_.empty() && !claim_) EndDrain();
}

void Dispatcher::Impl::CancelRun(const JobId& id) {
  if (const auto run = runs_.find(id); run != runs_.end()) return StopRun(run->second, StopReason::kCancel);
  if (claim_) claim_->cancelled.insert(id);
  if (queue_.Remove(id)) Schedule();  // it was cancelled while it waited
}

void Dispatcher::Impl::StopRun(RunningJob& run, StopReason why) {
  const auto continues = [](StopReason reason) {  // later
    return reason == StopReason::kRelease || reason == StopReason::kPreempt;
  };
  if (run.group.empty() || (run.stop != StopReason::kNone && (continues(why) || !continues(run.stop)))) return;
  const bool is_counted = run.stop != StopReason::kNone;  // or was stopped for another reason
  run.stop = why;
  if (why == StopReason::kLeaseLost && !is_counted && metrics_ != nullptr) metrics_->leases_lost_total.Increment();
  run.cancel_time = now();
  if (const auto group = groups_.find(run.group); group != groups_.end()) {
    group->second->CancelRun(attended(), /*keep_state=*/continues(why));
  }
  CheckHealth();
}

void Dispatcher::Impl::ScheduleRenewal(const Attempt& attempt, absl::Time asked) {
  loop_->PostAt(asked + options_.lease / 3, [this, attempt] { Renew(attempt); });
}

void Dispatcher::Impl::Renew(const Attempt& attempt) {
  if (Current(attempt) == nullptr) return;
  store_.Renew(attempt, options_.lease,
               OnLoop<absl::StatusOr<Lease>>([attempt, asked = loop_->Now()](Impl& self, absl::StatusOr<Lease> lease) {
                 RunningJob* run = self.Current(attempt);
                 if (run == nullptr) return;
                 if (absl::IsAborted(lease.status()) || absl::IsNotFound(lease.status())) {
                   return self.StopRun(*run, StopReason::kLeaseLost);  // claimed by another frontend, or deleted
                 }
                 if (lease.ok()) Sharing::Trust(self, *run, asked);
                 if (lease.ok() && lease->cancel_requested) self.StopRun(*run, StopReason::kCancel);
                 self.ScheduleRenewal(attempt, asked);
               }));
}

void Dispatcher::Impl::AppendEvent(RunningJob& run, const v1::VideoEvent& event) {
  ++run.appends;
  store_.Append(run.attempt, event,
                OnLoop<absl::Status>([attempt = run.attempt](Impl& self, const absl::Status& status) {
                  RunningJob* running = self.Current(attempt);
                  if (running == nullptr) return;
                  if (--running->appends <= kMostAppends) ReadOn(*running);
                  if (absl::IsAborted(status)) return self.StopRun(*running, StopReason::kLeaseLost);
                  if (running->appends == 0) self.Publish(*running);
                }));
}

void Dispatcher::Impl::Publish(RunningJob& run) {
  if (run.appends > 0 || run.group.empty()) return;
  v1::VideoEvent event;
  event.set_video_id(run.attempt.id);
  if (std::exchange(run.step_held, false)) {
    *event.mutable_step() = run.progress;
    hub_.PublishStep(event);
  }
  if (run.preview) {
    *event.mutable_preview() = *std::exchange(run.preview, std::nullopt);
    hub_.PublishStep(std::move(event));
  }
}

void Dispatcher::Impl::OnStage(WorkerGroup& group, const v1::StageMark& mark) {
  RunningJob* run = RunOf(group);
  if (run == nullptr) return;
  run->step_held = false;  // it belongs to the previous stage
  SetProgress(mark, run->progress);
  run->progress.set_step(0);
  run->stage = mark.stage();
  v1::VideoEvent event;
  if (mark.stage() == v1::STAGE_FINALIZE) {
    event.mutable_state()->set_state(v1::Video::FINALIZING);
  } else {
    *event.mutable_stage() = run->progress;
  }
  AppendEvent(*run, event);
  Preempting::OnProgress(*this);
}

void Dispatcher::Impl::OnStep(WorkerGroup& group, const v1::StepMark& mark) {
  RunningJob* run = RunOf(group);
  if (run == nullptr) return;
  SetProgress(mark, run->progress);
  run->progress.set_step(mark.step());
  run->step_held = true;
  Publish(*run);
  Preempting::OnProgress(*this);
}

void Dispatcher::Impl::OnPreview(WorkerGroup& group, const v1::PreviewMark& mark) {
  RunningJob* run = RunOf(group);
  if (run == nullptr) return;
  run->preview = mark.preview();
  Publish(*run);
}

void Dispatcher::Impl::OnResolved(WorkerGroup& group, const v1::ResolvedMark& mark) {
  RunningJob* run = RunOf(group);
  if (run == nullptr) return;
  v1::VideoEvent event;
  event.mutable_state()->set_state(v1::Video::RUNNING);
  *event.mutable_state()->mutable_resolved() = mark.resolved();
  Resuming::OnResolved(*this, *run, mark.resolved());
  AppendEvent(*run, event);
}

void Dispatcher::Impl::OnRunEnded(WorkerGroup& group, const v1::RunResult& result) {
  if (RunningJob* run = RunOf(group)) {
    run->group.clear();
    if (result.has_speed()) {  // only improves estimates, so errors are ignored
      catalogue_.AddSpeed(group.SpeedPlace(), result.speed(), [](const absl::Status&) {});
      AgeShapes();
    }
    EndRun(*run, result);
  }
  CheckHealth();
  Schedule();
}

void Dispatcher::Impl::OnUpload(WorkerGroup& group, const v1::UploadChunk& chunk) {
  const RunningJob* run = RunOf(group);
  if (run == nullptr || options_.intake == nullptr) {  // the run was released
    return group.AnswerUpload(chunk, absl::AbortedError("the artifact belongs to no run of this group"));
  }
  v1::UploadChunk place = chunk;  // the fields that the answer repeats
  place.clear_data();
  options_.intake->Take(ArtifactKey(run->attempt), chunk,
                        OnLoop<absl::StatusOr<std::optional<StoredFile>>>(
                            [attempt = run->attempt, id = group.id(), incarnation = group.incarnation(), place](
                                Impl& self, const absl::StatusOr<std::optional<StoredFile>>& taken) {
                              RunningJob* uploading = self.Current(attempt);
                              if (uploading != nullptr && taken.ok() && taken->has_value()) {
                                uploading->uploaded[place.name()] = **taken;
                              }
                              const auto it = self.groups_.find(id);
                              if (it == self.groups_.end() || it->second->incarnation() != incarnation) return;
                              it->second->AnswerUpload(place, taken.status());
                            }));
}

void Dispatcher::Impl::OnFetch(WorkerGroup& group, const v1::InputFetch& fetch) {
  const RunningJob* const run = RunOf(group);
  if (run == nullptr || options_.inputs == nullptr) {  // the run was released
    v1::InputPiece none = AnswerTo(fetch);
    *none.mutable_error() = ToRpcStatus(absl::AbortedError("the input belongs to no run of this group"));
    return group.SendPiece(std::move(none));
  }
  const std::string key = fetch.input_id() == kResumeInput ? run->offered : InputKey(fetch.input_id());
  options_.inputs->Give(
      fetch, key,
      OnLoop<v1::InputPiece>([id = group.id(), incarnation = group.incarnation()](Impl& self, v1::InputPiece piece) {
        const auto it = self.groups_.find(id);
        if (it == self.groups_.end() || it->second->incarnation() != incarnation) return;
        it->second->SendPiece(std::move(piece));
      }));
}

namespace {

// Compares the artifacts that a worker reports with those received.
absl::Status CheckUploads(const RunningJob& run, const v1::RunResult& result) {
  for (const v1::Artifact& artifact : result.artifacts()) {
    const auto came = run.uploaded.find(artifact.id());
    if (came != run.uploaded.end() && came->second.sha256 == artifact.sha256() &&
        came->second.bytes == artifact.bytes()) {
      continue;
    }
    return absl::DataLossError(absl::StrCat("artifact ", artifact.id(),
                                            ": the worker reports it as sent, but the frontend has not received it"));
  }
  return absl::OkStatus();
}

}  // namespace

void Dispatcher::Impl::EndRun(RunningJob& run, const v1::RunResult& result) {
  absl::Status status = FromRpcStatus(result.error());
  if (status.ok() && run.uploads) status = CheckUploads(run, result);
  Log(Severity::kInfo, "run_ended",
      {{"job", run.attempt.id},
       {"attempt", run.attempt.number},
       {"code", absl::StatusCodeToString(status.code())},
       {"step", result.step_reached()}});
  Outcome outcome;
  outcome.usage = result.usage();
  outcome.progress = run.progress;
  if (status.ok()) {
    outcome.state = v1::Video::COMPLETED;
    outcome.artifacts.assign(result.artifacts().begin(), result.artifacts().end());
  } else if (!absl::IsCancelled(status)) {
    outcome.state = v1::Video::FAILED;
    outcome.error = ToRpcStatus(status);
  } else if (run.stop == StopReason::kCancel) {
    outcome.state = v1::Video::CANCELLED;
    if (metrics_ != nullptr) metrics_->cancel_latency_seconds.Observe(absl::ToDoubleSeconds(now() - run.cancel_time));
  } else if (run.stop == StopReason::kDeadline) {
    outcome.state = v1::Video::FAILED;
    outcome.error = ToRpcStatus(absl::DeadlineExceededError(
        absl::StrCat("scheduling.deadline: passed at step ", result.step_reached(), " of the run")));
  } else if (run.stop == StopReason::kLeaseLost) {
    return Forget(run.attempt);
  } else {
    const bool preempted = run.stop == StopReason::kPreempt;
    const std::string why = run.stop == StopReason::kNone ? std::string(status.message())
                            : preempted                   ? "a job of a higher priority took its place"
                                                          : "its run was released";
    return Requeue(run.attempt, {.why = why, .progress = run.progress, .preempted = preempted});
  }
  Finish(run.attempt, outcome);
}

void Dispatcher::Impl::Finish(const Attempt& attempt, const Outcome& outcome) {
  store_.Finish(attempt, outcome, OnLoop<absl::Status>([attempt, outcome](Impl& self, const absl::Status& status) {
                  if (!self.StoreFails(status)) return self.Forget(attempt);
                  if (const auto not_logged = self.outcomes_not_stored_.Admit()) {
                    Log(Severity::kError, "outcome_not_stored",
                        {{"job", attempt.id}, {"why", std::string(status.message())}, {"times", 1 + *not_logged}});
                  }
                  self.After(self.StoreRetryPause(), [attempt, outcome](Impl& impl) { impl.Finish(attempt, outcome); });
                }));
}

void Dispatcher::Impl::Requeue(const Attempt& attempt, const Release& release) {
  if (RunningJob* run = Current(attempt); run != nullptr && run->points_in_check > 0) {  // they come first
    run->release = release;
    return;
  }
  store_.Requeue(
      attempt, release,
      OnLoop<absl::StatusOr<v1::Video>>([attempt, release](Impl& self, absl::StatusOr<v1::Video> video) {
        if (self.StoreFails(video.status())) {
          self.After(self.StoreRetryPause(), [attempt, release](Impl& impl) { impl.Requeue(attempt, release); });
          return;
        }
        RunningJob* run = self.Current(attempt);
        if (run == nullptr) return;
        const QueuedJob job = run->job;
        Resuming::OnRequeued(self, *run, video);
        self.Forget(attempt);
        Log(Severity::kInfo, "run_requeued",
            {{"job", attempt.id},
             {"why", release.why},
             {"state", video.ok() ? v1::Video::State_Name(video->state()) : std::string(video.status().message())}});
        if (!video.ok() || video->state() != v1::Video::QUEUED) return;
        if (release.preempted && self.metrics_ != nullptr) self.metrics_->preemptions_total.Increment();
        self.QueueAgain(job);
      }));
}

void Dispatcher::Impl::Forget(const Attempt& attempt) {
  RunningJob* const run = Current(attempt);
  if (run != nullptr && run->uploads && options_.intake != nullptr) options_.intake->Drop(ArtifactKey(attempt));
  if (run != nullptr) {
    ReadOn(*run);
    hub_.EndHere(attempt.id);
    runs_.erase(attempt.id);
  }
  CountRuns();
}

void Dispatcher::Impl::BeginDrain(absl::Duration grace, std::function<void()> drained) {
  draining_ = true;
  drained_ = std::move(drained);
  for (const auto& [id, run] : runs_) {
    const auto group = groups_.find(run.group);
    if (group == groups_.end()) continue;
    const absl::Duration limit = TimeToStore(group->second->expected_step(), grace);
    After(grace - limit, [attempt = run.attempt, limit](Impl& self) { Resuming::Keep(self, attempt, limit); });
  }
  ReportHealth();
  After(grace, [](Impl& self) {
    if (self.drained_ == nullptr) return;
    self.ReleaseRuns();
    self.After(kStorePatience, [](Impl& impl) { impl.EndDrain(); });
  });
  CountRuns();
}

void Dispatcher::Impl::EndDrain() {
  if (drained_ == nullptr) return;
  for (const auto& [id, group] : groups_) group->Shutdown(absl::ZeroDuration());
  std::exchange(drained_, nullptr)();
}

void Dispatcher::Impl::ReleaseRuns() {
  for (auto& [id, run] : runs_) {
    if (run.group.empty()) continue;  // its outcome is already being stored
    const auto group = groups_.find(run.group);
    if (group != groups_.end()) group->second->CancelRun(attended());
    run.group.clear();  // later messages about the run are ignored
    Requeue(run.attempt, {.why = "the frontend was stopped", .progress = run.progress});
  }
}

RunningJob* Dispatcher::Impl::RunOf(const WorkerGroup& group) {
  const auto it = std::find_if(runs_.begin(), runs_.end(), [&](const auto& e) { return e.second.group == group.id(); });
  return it == runs_.end() ? nullptr : &it->second;
}

RunningJob* Dispatcher::Impl::Current(const Attempt& attempt) {
  const auto it = runs_.find(attempt.id);
  return it == runs_.end() || it->second.attempt.number != attempt.number ? nullptr : &it->second;
}

}  // namespace kinora
