// Dispatcher: finds a job for an idle group.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "server/frontend/groups/dispatcher_impl.h"
#include "server/frontend/groups/dispatcher_resume.h"
#include "server/frontend/groups/dispatcher_sharing.h"

namespace kinora {
namespace {

RunningJob NewRun(WorkClaim claim, absl::Time now) {
  RunningJob run{.attempt = std::move(claim.claimed.attempt),
                 .job = std::move(claim.job),
                 .video = std::move(claim.claimed.video),
                 .group = std::move(claim.group),
                 .stop = StopReason::kNone,
                 .cancel_time = now,
                 .progress = {}};
  run.resume = std::move(claim.claimed.resume);
  return run;
}

}  // namespace

std::vector<v1::ModelInfo> Dispatcher::Impl::ModelsNow() const {
  std::vector<v1::ModelInfo> models;
  for (const auto& [id, model] : away_models_) models.push_back(model);
  for (const auto& [id, group] : groups_) {
    if (group->serving() || group->state() == WorkerGroup::State::kUnfit) models.push_back(group->ready().model());
  }
  return models;
}

GroupsNow Dispatcher::Impl::ListIdle() {
  GroupsNow now{.idle = {}, .models = ModelsNow()};
  std::vector<const WorkerGroup*> idle;
  for (const auto& [id, group] : groups_) {
    if (group->state() == WorkerGroup::State::kIdle) idle.push_back(group.get());
  }
  std::stable_sort(idle.begin(), idle.end(), [](const WorkerGroup* a, const WorkerGroup* b) {
    return a->idle_since() < b->idle_since();  // the longest first
  });
  for (const WorkerGroup* group : idle) {
    now.idle.push_back({group->id(), group->incarnation(), group->ready().model(), group->worn()});
    const auto reserved = reservations_.find(group->id());
    if (reserved != reservations_.end()) now.idle.back().reserved = reserved->second;
  }
  return now;
}

// One claim at a time: which of the groups gets its job is known only with the answer.
void Dispatcher::Impl::Schedule() {
  ExpireQueued();
  if (claim_) claim_->schedule_again = true;
  if (draining_ || claim_ || queue_.size() == 0) return;
  Preempting::DropStale(*this);
  const auto groups = std::make_shared<const GroupsNow>(ListIdle());
  if (groups->idle.empty()) return Preempting::Consider(*this);
  claim_ = {.groups = groups, .asked_time = loop_->Now()};
  CountRuns();
  WorkRequest request{.owner = options_.owner, .lease = options_.lease, .group_for = {}};
  request.group_for = [groups](const QueuedJob& job) {
    const IdleGroup* const group = GroupFor(job, *groups);
    return group == nullptr ? "" : group->id;
  };
  queue_.ClaimNext(std::move(request), OnLoop<absl::StatusOr<std::optional<WorkClaim>>>(
                                           [](Impl& self, absl::StatusOr<std::optional<WorkClaim>> claimed) {
                                             Resuming::Offer(self, std::move(claimed));
                                           }));
}

void Dispatcher::Impl::OnClaimed(absl::StatusOr<std::optional<WorkClaim>> claimed) {
  if (StoreFails(claimed.status())) {  // claims nothing meanwhile, so that it does not try one queued job after another
    After(StoreRetryPause(), [](Impl& self) {
      self.claim_.reset();
      self.CountRuns();
      self.Schedule();
    });
    return;
  }
  const PendingClaim asked = *std::exchange(claim_, std::nullopt);
  if (!claimed.ok() || !claimed->has_value()) {
    CountRuns();
    const bool freed = Preempting::DropUnusable(*this, *asked.groups);
    return freed || asked.schedule_again ? Schedule() : Preempting::Consider(*this);
  }
  RunningJob& run = runs_[(*claimed)->job.id];
  run = NewRun(**std::move(claimed), now());
  run.saved_time = attended();
  queue_.Remove(run.attempt.id);  // a look at the store may have added it meanwhile
  Preempting::Release(*this, run.group, run.attempt.id);
  CountRuns();
  Sharing::Trust(*this, run, asked.asked_time);
  ScheduleRenewal(run.attempt, asked.asked_time);
  const auto group = groups_.find(run.group);
  if (group != groups_.end() && group->second->state() == WorkerGroup::State::kIdle && !draining_ &&
      Sharing::IsTrusted(*this, run) && asked.groups->HasIdle(run.group, group->second->incarnation())) {
    StartRun(run, *group->second);
    if (asked.cancelled.contains(run.attempt.id)) StopRun(run, StopReason::kCancel);
  } else {
    run.group.clear();  // lost, drained or replaced since the claim, or the answer came late: nothing ran
    Requeue(run.attempt, {.why = "its group or its lease was gone before the run started"});
  }
  Schedule();
}

}  // namespace kinora
