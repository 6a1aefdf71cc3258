// How fast this model has been: FLOP a second of its denoising and of everything else, each the median of the last 20
// runs.
#ifndef KINORA_SERVER_WORKER_SPEED_H_
#define KINORA_SERVER_WORKER_SPEED_H_

#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/run_plan.h"

namespace kinora {

class Speed {  // thread-safe
 public:
  void Observe(const RunPlan& plan, double denoise_seconds, double other_seconds);
  double Seconds(const RunPlan& plan) const;  // 0: nothing was observed yet
  double DenoiseSeconds(const RunPlan& plan) const;

 private:
  class Rate {
   public:
    void Add(double flops, double seconds);
    double Seconds(double flops) const;

   private:
    std::deque<double> rates_;
  };
  mutable absl::Mutex mu_;
  Rate denoise_ ABSL_GUARDED_BY(mu_), other_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_SPEED_H_
