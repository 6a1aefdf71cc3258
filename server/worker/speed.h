// How long requests take on this worker: a fit (stage_fit.h) per kind of stage to the times of recent runs, both its
// own and those that the frontend remembers, and to the warm-up, whose weight is small.
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

// Returns the plan's stages, followed by the one that finalizes the file. stage_seconds: measured seconds by stage
// name; a stage that is missing there gets none.
v1::RunSpeed ToRunSpeed(const RunPlan& plan, const std::map<std::string, double>& stage_seconds);

class Speed {  // thread-safe
 public:
  void ObserveWarmUp(const v1::RunSpeed& run);
  void Observe(const v1::RunSpeed& run);
  void Remember(const v1::SpeedHistory& past);  // adds runs before the first observed one

  // Returns the expected seconds of a planned stage, or of all stages of a plan; 0 before the first observation. A kind
  // of stage without observations gets the seconds per FLOP of all others together.
  double Seconds(const v1::StageSpeed& stage) const;
  double Seconds(const v1::RunSpeed& plan) const;

 private:
  void Fit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double StageSeconds(const v1::StageSpeed& stage) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::vector<v1::RunSpeed> warm_up_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::RunSpeed> runs_ ABSL_GUARDED_BY(mu_);  // oldest first
  std::map<std::string, StageFit> fits_ ABSL_GUARDED_BY(mu_);
  double seconds_per_flop_ ABSL_GUARDED_BY(mu_) = 0;  // over all kinds of stages
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_SPEED_H_
