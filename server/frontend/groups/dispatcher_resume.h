// Dispatcher: the resume points of runs, and preemption. Both use the rules of resume_rules.h and preemption.h. On the
// dispatcher's loop.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_RESUME_H_
#define KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_RESUME_H_

#include <optional>
#include <string>
#include <vector>

#include "server/frontend/groups/dispatcher_impl.h"

namespace kinora {

// A point counts once its file was seen and the store has committed it; then the file of the one before is deleted.
// The files of a job that has ended are deleted by the housekeeper.
struct Dispatcher::Impl::Resuming {
  // Before OnClaimed: forgets a point of an earlier attempt whose file is gone.
  static void Offer(Impl& self, absl::StatusOr<std::optional<WorkClaim>> claimed);
  static void Put(RunningJob& run, v1::Run& message);
  static void OnResolved(Impl& self, RunningJob& run, const v1::Resolved& resolved);
  static void OnMark(Impl& self, const WorkerGroup& group, const v1::ResumeMark& mark);
  static void OnRequeued(Impl& self, const RunningJob& run, const absl::StatusOr<v1::Video>& video);
  // Has the run store its state and stop, unless it ends within `limit` by itself.
  static void Keep(Impl& self, const Attempt& attempt, absl::Duration limit);

 private:
  using Replaced = absl::StatusOr<std::optional<v1::ResumeMark>>;
  static void ForgetLost(Impl& self, Claimed& claimed, const absl::Status& why);
  static void Discard(Impl& self, RunningJob& run, const v1::ResumeMark& mark);  // its file
  static void OnChecked(Impl& self, const Attempt& attempt, const v1::ResumeMark& mark, const absl::Status& checked);
  static void OnStored(Impl& self, const Attempt& attempt, const v1::ResumeMark& mark, const Replaced& replaced);
};

struct Dispatcher::Impl::Preempting {
  // Reserves groups for waiting jobs and stops the groups' runs, where FrontendConfig.preempt_after_seconds says so.
  // Only when no idle group can run any of the waiting jobs.
  static void Consider(Impl& self);
  // After news of a run: considers it, but first offers the jobs to the idle groups.
  static void OnProgress(Impl& self);
  // Ends the reservations of jobs that wait no longer, and of groups that take no jobs any more.
  static void DropStale(Impl& self);
  // Ends the reservations of groups for which, although idle, no job was found: they can no longer run it. False: there
  // are none.
  static bool DropUnusable(Impl& self, const GroupsNow& asked);
  // Ends the reservations of a group and a job that have been assigned.
  static void Release(Impl& self, const std::string& group, const JobId& job);

 private:
  static std::vector<BusyGroup> BusyGroups(Impl& self);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_RESUME_H_
