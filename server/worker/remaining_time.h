// The progress of a run and its remaining time. All progress that clients see comes from here.
#ifndef KINORA_SERVER_WORKER_REMAINING_TIME_H_
#define KINORA_SERVER_WORKER_REMAINING_TIME_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/pipeline/resume_point.h"
#include "engine/pipeline/run_plan.h"

namespace kinora {

struct RunEstimate {
  double fraction = 0;            // of the whole run, 0..1, never falls
  double remaining_seconds = -1;  // negative: not yet known
};

// Weights each stage by its expected seconds, and corrects the remaining time by the run's own pace. Stages outside the
// plan (reading inputs, putting on LoRAs) do not count towards the pace.
class RemainingTime {  // one thread
 public:
  // expected: returns the expected seconds of a stage of the plan, or of finalizing. If all are 0, stages are weighted
  // by their operations, and the remaining time is unknown until the run shows its pace. from: the point of the plan
  // from which the run continues; what it holds counts as done, but not towards the pace. Null: the whole plan is run.
  RemainingTime(const RunPlan& plan, absl::FunctionRef<double(Stage)> expected, const Clock& steady,
                const ResumePoint* from = nullptr);

  // To be called at the start of each stage and after each step, in the order of the run.
  RunEstimate At(const Progress& progress);
  // The fraction that At would return.
  double FractionAt(const Progress& progress) const;

 private:
  struct Share {
    Stage stage;
    double size;         // expected seconds, or operations, of what this run computes
    int64_t first_step;  // steps that the resume point holds
  };
  void PassOver(const RunPlan& plan, const ResumePoint& from);

  const Clock& steady_;
  std::vector<Share> shares_;
  bool seconds_known_ = false;
  double held_ = 0;       // the size of what the resume point holds
  double total_ = 0;      // of the sizes
  double elapsed_ = 0;    // seconds spent in planned stages
  double fraction_ = 0;   // of held_ + total_
  bool in_plan_ = false;  // whether the time since last_ counts
  absl::Time last_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_REMAINING_TIME_H_
