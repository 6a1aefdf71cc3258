#include "server/frontend/groups/dispatcher_sharing.h"

#include <algorithm>
#include <utility>

#include "engine/base/logging.h"
#include "server/common/metrics.h"
#include "server/frontend/groups/dispatcher_resume.h"

namespace kinora {
namespace {

constexpr absl::Duration kWorkInterval = absl::Milliseconds(50);  // between looks for work: each reads the queue
constexpr int kMarginShare = 6;  // of a lease: for clocks of different rates, and for the message that stops the run

}  // namespace

void Dispatcher::Impl::Sharing::Begin(Impl& self) {
  if (IsShared(self)) self.After(self.options_.look_interval, &LookAgain);
}

void Dispatcher::Impl::Sharing::LookAgain(Impl& self) {
  Look(self);
  self.After(self.options_.look_interval, &LookAgain);
}

void Dispatcher::Impl::Sharing::Look(Impl& self) {
  if (!IsShared(self)) return;
  if (std::exchange(self.view_.reading, true)) {
    self.view_.read_again = true;
    return;
  }
  self.view_.read_time = self.loop_->Now();
  std::set<JobId> waited;
  self.queue_.Visit([&](const QueuedJob& job) { return waited.insert(job.id).second; });
  self.store_.Unfinished(self.OnLoop<absl::StatusOr<std::vector<UnfinishedJob>>>(
      [waited](Impl& impl, const absl::StatusOr<std::vector<UnfinishedJob>>& jobs) {
        impl.view_.reading = false;
        if (jobs.ok()) OnRead(impl, waited, *jobs);
        if (std::exchange(impl.view_.read_again, false)) Look(impl);
      }));
}

void Dispatcher::Impl::Sharing::LookForWork(Impl& self) {
  const bool idle = std::any_of(self.groups_.begin(), self.groups_.end(),
                                [](const auto& entry) { return entry.second->state() == WorkerGroup::State::kIdle; });
  const absl::Time next = self.view_.read_time + kWorkInterval;
  if (!idle) return;
  if (self.loop_->Now() >= next) return Look(self);
  if (std::exchange(self.view_.will_read, true)) return;
  self.loop_->PostAt(next, [&self] {
    self.view_.will_read = false;
    LookForWork(self);
  });
}

// What has changed since the read, such as a job that was requeued here, is put right by the next.
void Dispatcher::Impl::Sharing::OnRead(Impl& self, const std::set<JobId>& waited,
                                       const std::vector<UnfinishedJob>& jobs) {
  const absl::Time now = self.loop_->Now();
  std::map<JobId, absl::Time> waiting;
  for (const UnfinishedJob& job : jobs) {
    if (job.attempt.number > 0) {
      if (job.attempt.owner == self.options_.owner) OnOwn(self, job);
      continue;
    }
    const auto seen = self.view_.waiting.find(job.video.id());
    waiting[job.video.id()] = seen == self.view_.waiting.end() ? now : seen->second;
    OnQueued(self, job);
  }
  self.view_.waiting = std::move(waiting);
  for (const JobId& id : waited) {
    if (!self.view_.waiting.contains(id)) self.queue_.Remove(id);
  }
  self.Schedule();
  for (const auto& [id, since] : self.view_.waiting) {
    if (now - since > self.options_.look_interval) self.view_.passed_over.insert(id);
  }
  Preempting::Consider(self);
  self.view_.passed_over.clear();
}

void Dispatcher::Impl::Sharing::OnQueued(Impl& self, const UnfinishedJob& job) {
  if (self.runs_.contains(job.video.id()) || self.queue_.Position(job.video.id()) > 0) return;
  self.queue_.Requeue(ToQueuedJob(job.video, job.scheduling));
}

void Dispatcher::Impl::Sharing::OnOwn(Impl& self, const UnfinishedJob& job) {
  if (job.cancel_requested) self.CancelRun(job.video.id());
  if (self.Current(job.attempt) != nullptr || self.claim_) return;
  self.store_.Requeue(job.attempt, {.why = "the answer to its claim was lost"},
                      self.OnLoop<absl::StatusOr<v1::Video>>([attempt = job.attempt](
                                                                 Impl& impl, const absl::StatusOr<v1::Video>& video) {
                        if (!video.ok()) return;  // it ended while the store was read
                        Log(Severity::kWarning, "claim_unknown", {{"job", attempt.id}, {"attempt", attempt.number}});
                        Look(impl);
                      }));
}

void Dispatcher::Impl::Sharing::Trust(Impl& self, RunningJob& run, absl::Time asked) {
  if (!IsShared(self) || !self.options_.ends_runs_with_leases) return;
  run.trusted_until = asked + self.options_.lease - self.options_.lease / kMarginShare;
  self.loop_->PostAt(run.trusted_until, [&self, attempt = run.attempt] {
    RunningJob* const late = self.Current(attempt);
    if (late == nullptr || late->group.empty() || IsTrusted(self, *late)) return;
    Log(Severity::kWarning, "lease_runs_out", {{"job", attempt.id}, {"attempt", attempt.number}});
    if (self.metrics_ != nullptr) self.metrics_->leases_lost_total.Increment();
    self.StopRun(*late, StopReason::kRelease);
  });
}

}  // namespace kinora
