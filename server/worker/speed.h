// How long requests take on this worker: a fit (stage_fit.h) for each kind of stage to what the last runs took, its own
// and those that the frontend remembers, and to the warm-up until there are enough of them.
#ifndef KINORA_SERVER_WORKER_SPEED_H_
#define KINORA_SERVER_WORKER_SPEED_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/run_plan.h"
#include "kinora/v1/worker.pb.h"
#include "server/worker/stage_fit.h"

namespace kinora {

// The plan's stages, and the one that follows them: "finalize", which makes the file durable. `stage_seconds`, by
// label: what they took; those that are not in it get none.
v1::RunSpeed ToRunSpeed(const RunPlan& plan, const std::map<std::string, double>& stage_seconds);

class Speed {  // thread-safe
 public:
  void ObserveWarmUp(const v1::RunSpeed& run);
  void Observe(const v1::RunSpeed& run);
  void Remember(const v1::SpeedHistory& past);  // runs before the first that was observed

  // Of a planned stage and of all of a plan's. 0: nothing was observed yet. A kind that has not been seen takes as long
  // for its FLOPs as all that have.
  double Seconds(const v1::StageSpeed& stage) const;
  double Seconds(const v1::RunSpeed& plan) const;

 private:
  void Fit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double StageSeconds(const v1::StageSpeed& stage) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::vector<v1::RunSpeed> warm_up_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::RunSpeed> runs_ ABSL_GUARDED_BY(mu_);  // oldest first
  std::map<std::string, StageFit> fits_ ABSL_GUARDED_BY(mu_);
  double seconds_per_flop_ ABSL_GUARDED_BY(mu_) = 0;  // of all kinds together
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_SPEED_H_
