#include "engine/pipeline/step_gate.h"

#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"

namespace kinora {

absl::Status StepGate::Pass(absl::FunctionRef<absl::Status()> on_step) {
  KINORA_RETURN_IF_ERROR(exec_.ops.stream().Synchronize());
  return OnRankZero(exec_, on_step);
}

}  // namespace kinora
