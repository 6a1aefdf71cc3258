// Dispatcher: jobs that wait, and the start of a run.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/logging.h"
#include "server/common/metrics.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/frontend/groups/dispatcher_impl.h"
#include "server/frontend/groups/dispatcher_resume.h"
#include "server/frontend/groups/lora_choice.h"
#include "server/request/input_refs.h"
#include "server/request/model_conversion.h"

namespace kinora {

void Dispatcher::Impl::Recover(const UnfinishedJob& job, Finished done) {
  const QueuedJob queued = ToQueuedJob(job.video, job.scheduling);
  if (job.attempt.number == 0 || job.video.state() == v1::Video::QUEUED) {
    QueueAgain(queued);
    return done(absl::OkStatus());
  }
  store_.Requeue(job.attempt, {.why = "its frontend is gone", .if_lost = true},
                 OnLoop<absl::StatusOr<v1::Video>>(
                     [queued, done = std::move(done)](Impl& self, absl::StatusOr<v1::Video> video) mutable {
                       if (video.ok() && video->state() == v1::Video::QUEUED) self.QueueAgain(queued);
                       // Aborted: another frontend may still run it, or has ended it.
                       done(absl::IsAborted(video.status()) ? absl::OkStatus() : video.status());
                     }));
}

void Dispatcher::Impl::QueueAgain(QueuedJob job) {
  job.queued_time = now();
  queue_.Requeue(job);
  Schedule();
}

// A job may wait for LoRAs that only a lost group has until join_timeout.
void Dispatcher::Impl::AwaitBack(const WorkerGroup& group) {
  if (!group.ready().model().id().empty()) away_models_[group.id()] = group.ready().model();
  After(options_.limits.join_timeout, [id = group.id(), incarnation = group.incarnation()](Impl& self) {
    if (self.groups_.contains(id) || self.lost_incarnations_[id] != incarnation) return;
    self.away_models_.erase(id);
    self.Schedule();
  });
}

void Dispatcher::Impl::ExpireQueued() {
  for (const QueuedJob& job : queue_.TakeExpired(now())) {
    const absl::Status error = absl::DeadlineExceededError("scheduling.deadline: passed before the job started");
    store_.FailQueued(job.id, ToRpcStatus(error), OnLoop<absl::StatusOr<v1::Video>>([job](Impl& self, auto video) {
                        if (self.StoreFails(video.status())) {
                          self.After(self.StoreRetryPause(), [job](Impl& impl) { impl.QueueAgain(job); });
                        }
                      }));
  }
  const absl::Time next = queue_.NextDeadline();
  if (next >= next_expiry_) return;
  next_expiry_ = next;
  After(next - now(), [next](Impl& self) {
    if (self.next_expiry_ != next) return;
    self.next_expiry_ = absl::InfiniteFuture();
    self.ExpireQueued();
  });
}

void Dispatcher::Impl::StartRun(RunningJob& run, WorkerGroup& group) {
  if (metrics_ != nullptr) {
    metrics_->queue_wait_seconds.Observe(
        absl::ToDoubleSeconds(FromProto(run.video.start_time()) - std::max(run.job.create_time, run.job.queued_time)));
  }
  Log(Severity::kInfo, "run_started",
      {{"job", run.attempt.id},
       {"attempt", run.attempt.number},
       {"group", group.id()},
       {"from_step", run.resume ? run.resume->point().step() : 0}});
  v1::Run message;
  message.set_video_id(run.attempt.id);
  message.set_attempt(run.attempt.number);
  *message.mutable_generation() = run.video.effective();
  for (v1::LoraRef& lora : *message.mutable_generation()->mutable_loras()) {  // so that all ranks use the same file
    if (lora.digest().empty()) lora.set_digest(LoraDigest(group.ready().model(), lora.id()));
  }
  *message.mutable_output() = run.video.output();
  message.set_artifact_key(ArtifactKey(run.attempt));
  for (const InputRef& ref : InputRefsOf(message.generation())) {
    (*message.mutable_input_paths())[ref.id] = InputKey(ref.id);
  }
  Resuming::Put(run, message);
  run.uploads = group.uploads();
  if (run.job.deadline != absl::InfiniteFuture()) {
    After(run.job.deadline - now(), [attempt = run.attempt](Impl& self) {
      if (RunningJob* late = self.Current(attempt)) self.StopRun(*late, StopReason::kDeadline);
    });
  }
  group.Start(message, attended());
  CheckHealth();
}

}  // namespace kinora
