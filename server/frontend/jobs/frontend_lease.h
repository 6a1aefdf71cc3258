// Keeps the lease of this frontend, and finds what other frontends have left whose leases are over. Both go on for as
// long as it lives, every third of a lease.
#ifndef KINORA_SERVER_FRONTEND_JOBS_FRONTEND_LEASE_H_
#define KINORA_SERVER_FRONTEND_JOBS_FRONTEND_LEASE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/common/log_limit.h"
#include "server/frontend/jobs/frontend_records.h"
#include "server/frontend/jobs/job_store.h"
#include "server/net/executor.h"

namespace kinora {

// As FrontendRecords::EndOtherLeases, but blocks. Logs a failure; then the leases end later, by themselves.
void EndOtherLeases(FrontendRecords& records, const FrontendId& id);

struct FrontendLeaseOptions {
  FrontendEntry frontend;
  absl::Duration lease = absl::Seconds(30);
  // For how long after the start, or after a renewal that failed, others count as alive: they may need as long to renew
  // their own leases.
  absl::Duration grace = absl::ZeroDuration();
  // Called for jobs that another frontend ran; they are still RUNNING. Not for those of JobStore::Unfinished at the
  // start, which the caller recovers.
  std::function<void(const UnfinishedJob& job)> on_lost_run;
  // Called once for each unfinished job whose client another frontend held. Called at the start, too.
  std::function<void(const JobId& id)> on_lost_client;
};

class FrontendLease {
 public:
  // Neither store is owned; flush them after Stop. The callbacks run on a thread of the stores. loop: with the time of
  // `steady`; null: an EventLoop.
  FrontendLease(FrontendRecords& records, JobStore& store, Clock& steady, FrontendLeaseOptions options,
                std::unique_ptr<Executor> loop = nullptr);
  ~FrontendLease() { Stop(); }
  void Stop() { loop_->Stop(); }

 private:
  void Renew();
  void FindLostClients();
  void FindLostRuns();
  void LogFailure(const absl::Status& status);

  FrontendRecords& records_;
  JobStore& store_;
  const FrontendLeaseOptions options_;
  absl::Time trusted_;  // from when on leases of others count; on the loop
  LogLimit failures_;
  const std::unique_ptr<Executor> loop_;  // last: its thread ends before other members are destroyed
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_FRONTEND_LEASE_H_
