// How rank 0's word, go on or stop, reaches every rank between the steps of a loop.
#ifndef KINORA_ENGINE_PIPELINE_STEP_GATE_H_
#define KINORA_ENGINE_PIPELINE_STEP_GATE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Here the host waits for each step, asks rank 0 and spreads its word before the next is enqueued. Callers only
// rely on what Pass promises.
class StepGate {
 public:
  explicit StepGate(Exec& exec) : exec_(exec) {}

  // Called on every rank when a step has been enqueued; OK: the next may be. `on_step` is asked once for each step, on
  // rank 0, when that step is done; what it returns, unless OK, ends the loop on every rank: rank 0 with that status,
  // the others with Cancelled. The stream's failure otherwise.
  absl::Status Pass(absl::FunctionRef<absl::Status()> on_step);

 private:
  Exec& exec_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STEP_GATE_H_
