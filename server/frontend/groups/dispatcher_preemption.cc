// Dispatcher: waiting jobs of a higher priority that interrupt runs.
#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/logging.h"
#include "server/common/timestamps.h"
#include "server/frontend/groups/dispatcher_resume.h"
#include "server/frontend/groups/dispatcher_sharing.h"
#include "server/frontend/groups/lora_choice.h"

namespace kinora {

void Dispatcher::Impl::Preempting::DropStale(Impl& self) {
  std::erase_if(self.reservations_, [&](const auto& reserved) {
    const auto group = self.groups_.find(reserved.first);
    return group == self.groups_.end() || !group->second->serving() ||
           group->second->incarnation() != reserved.second.incarnation ||
           self.queue_.Position(reserved.second.job) == 0;
  });
}

bool Dispatcher::Impl::Preempting::DropUnusable(Impl& self, const GroupsNow& asked) {
  return std::erase_if(self.reservations_, [&](const auto& reserved) {
           return asked.HasIdle(reserved.first, reserved.second.incarnation);
         }) > 0;
}

void Dispatcher::Impl::Preempting::Release(Impl& self, const std::string& group, const JobId& job) {
  std::erase_if(self.reservations_,
                [&](const auto& reserved) { return reserved.first == group || reserved.second.job == job; });
}

// Returns the busy groups that are not reserved.
std::vector<BusyGroup> Dispatcher::Impl::Preempting::BusyGroups(Impl& self) {
  std::vector<BusyGroup> busy;
  for (const auto& [id, group] : self.groups_) {
    if (self.reservations_.contains(id) || group->state() != WorkerGroup::State::kBusy) continue;
    BusyGroup& facts = busy.emplace_back(BusyGroup{.group = id});
    const RunningJob* const run = self.RunOf(*group);
    if (run == nullptr) continue;
    facts.stoppable = run->stop == StopReason::kNone && IsBeforeDecoding(run->stage);
    facts.priority = run->job.priority;
    facts.preemptions = run->video.preemptions();
    facts.unsaved = self.attended() - run->saved_time;
    if (run->progress.has_remaining()) facts.remaining = FromProto(run->progress.remaining());
    if (run->stop != StopReason::kNone) facts.remaining = absl::ZeroDuration();
  }
  return busy;
}

void Dispatcher::Impl::Preempting::OnProgress(Impl& self) {
  if (self.options_.preempt_after == absl::ZeroDuration() || self.queue_.size() == 0) return;
  const bool idle = std::any_of(self.groups_.begin(), self.groups_.end(),
                                [](const auto& entry) { return entry.second->state() == WorkerGroup::State::kIdle; });
  idle ? self.Schedule() : Consider(self);
}

void Dispatcher::Impl::Preempting::Consider(Impl& self) {
  if (self.options_.preempt_after == absl::ZeroDuration() || self.draining_ || self.queue_.size() == 0) return;
  if (self.claim_) return;  // an idle group may be about to take a job; its answer calls this again
  DropStale(self);
  std::vector<BusyGroup> busy = BusyGroups(self);
  GroupsNow one{.idle = std::vector<IdleGroup>(1), .models = self.ModelsNow()};
  const auto can_run = [&](const BusyGroup& busy_group, const QueuedJob& job) {
    const WorkerGroup& group = *self.groups_.at(busy_group.group);
    one.idle[0] = {group.id(), group.incarnation(), group.ready().model(), group.worn()};
    return GroupFor(job, one) != nullptr;
  };
  std::map<std::string, QueuedJob> chosen;  // by group
  self.queue_.Visit([&](const QueuedJob& job) {
    const bool any = std::any_of(busy.begin(), busy.end(), [&](const BusyGroup& group) {
      return group.stoppable && group.priority < job.priority;
    });
    if (!any) return false;  // nor for the jobs behind it
    const bool has_place = std::any_of(self.reservations_.begin(), self.reservations_.end(),
                                       [&](const auto& reserved) { return reserved.second.job == job.id; });
    if (has_place || !Sharing::IsPassedOver(self, job.id)) return true;
    std::vector<BusyGroup> fitting;
    std::copy_if(busy.begin(), busy.end(), std::back_inserter(fitting),
                 [&](const BusyGroup& group) { return can_run(group, job); });
    const std::optional<Place> place = ChoosePlace(job.priority, self.options_.preempt_after, fitting);
    if (!place) return true;
    const std::string& group = fitting[place->index].group;
    if (place->interrupt) chosen[group] = job;
    std::erase_if(busy, [&](const BusyGroup& taken) { return taken.group == group; });
    return true;
  });
  for (const auto& [id, job] : chosen) {
    const auto group = self.groups_.find(id);
    RunningJob* const run = group == self.groups_.end() ? nullptr : self.RunOf(*group->second);
    if (run == nullptr) continue;  // lost when the health of all groups was checked, at the stop before
    self.reservations_[id] = {.job = job.id, .priority = job.priority, .incarnation = group->second->incarnation()};
    Log(Severity::kInfo, "run_preempted",
        {{"job", run->attempt.id}, {"attempt", run->attempt.number}, {"group", id}, {"for", job.id}});
    self.StopRun(*run, StopReason::kPreempt);
  }
}

}  // namespace kinora
