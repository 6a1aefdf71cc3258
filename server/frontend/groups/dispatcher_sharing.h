// Dispatcher: what other frontends commit to the same store. On the dispatcher's loop.
//
// The unfinished jobs are read at intervals (DispatcherOptions::look_interval), and when news of one comes
// (LookAtStore). That keeps the queue complete, finds cancelled runs, and runs that this frontend has claimed without
// knowing because the answer was lost. A frontend that is alone reads nothing.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_SHARING_H_
#define KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_SHARING_H_

#include <set>
#include <vector>

#include "server/frontend/groups/dispatcher_impl.h"

namespace kinora {

struct Dispatcher::Impl::Sharing {
  static bool IsShared(const Impl& self) { return self.options_.look_interval > absl::ZeroDuration(); }
  static void Begin(Impl& self);
  static void Look(Impl& self);
  static void LookForWork(Impl& self);
  // Whether the job may interrupt a run: there is no other frontend, or the store was just read, and every frontend
  // with an idle group has had the time to see the job.
  static bool IsPassedOver(const Impl& self, const JobId& id) {
    return !IsShared(self) || !self.options_.ends_runs_with_leases || self.view_.passed_over.contains(id);
  }

  // After the store has granted a lease that it was asked for at `asked`. The run is stopped before the lease is over,
  // unless it is renewed by then: another frontend may take the job from then on.
  static void Trust(Impl& self, RunningJob& run, absl::Time asked);
  static bool IsTrusted(const Impl& self, const RunningJob& run) { return self.loop_->Now() < run.trusted_until; }

 private:
  static void LookAgain(Impl& self);  // after every interval
  // waited: the jobs that were in the queue before the store was read.
  static void OnRead(Impl& self, const std::set<JobId>& waited, const std::vector<UnfinishedJob>& jobs);
  static void OnQueued(Impl& self, const UnfinishedJob& job);
  static void OnOwn(Impl& self, const UnfinishedJob& job);  // it runs, and this frontend owns it
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_DISPATCHER_SHARING_H_
