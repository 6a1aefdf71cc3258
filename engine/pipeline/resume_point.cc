#include "engine/pipeline/resume_point.h"

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/parallel/agree.h"

namespace kinora {
namespace {

absl::StatusOr<const HostArray*> Find(const ResumePoint& point, const CarriedTensor& wanted) {
  const auto found = point.values.find(wanted.name);
  if (found == point.values.end()) {
    return absl::InvalidArgumentError(Cat("resume point: ", wanted.name, " is missing"));
  }
  const HostArray& value = found->second;
  if (Shape(value.shape) == wanted.value.shape() &&
      static_cast<int64_t>(value.values.size()) == wanted.value.elements()) {
    return &value;
  }
  return absl::InvalidArgumentError(Cat("resume point: ", wanted.name, ": shape ", Shape(value.shape).ToString(),
                                        ", but this run needs ", wanted.value.shape().ToString()));
}

}  // namespace

absl::Status CheckResumePoint(const RunPlan& plan, const ResumePoint& point) {
  const auto stages = static_cast<int64_t>(plan.stages.size());
  if (point.stage < 0 || point.stage >= stages || plan.stages[point.stage].kind != StageKind::kDenoise) {
    return absl::InvalidArgumentError(Cat("resume point: stage ", point.stage, " of the plan does not denoise"));
  }
  const StagePlan& stage = plan.stages[point.stage];
  if (point.step >= 1 && point.step <= stage.steps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("resume point: step ", point.step, " of stage ", stage.stage().name(), ", which has ", stage.steps));
}

absl::Status TakeValues(Exec& exec, const CarriedTensors& carried, ResumePoint& point) {
  for (const auto& [name, tensor] : carried) {
    HostArray& value = point.values[name];
    value.shape.assign(tensor.shape().dims().begin(), tensor.shape().dims().end());
    value.values.resize(tensor.elements());
    exec.ops.stream().CopyToHost(tensor, value.values.data());
  }
  return exec.ops.stream().Synchronize();
}

absl::Status RestoreValues(Exec& exec, const ResumePoint* point, const CarriedTensors& carried) {
  KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&]() -> absl::Status {
    for (const CarriedTensor& wanted : carried) {
      KINORA_ASSIGN_OR_RETURN(const HostArray* const value, Find(*point, wanted));
      exec.ops.stream().CopyFromHost(value->values.data(), wanted.value);
    }
    return absl::OkStatus();
  }));
  for (const CarriedTensor& wanted : carried) exec.mesh.world().Broadcast(0, wanted.value, exec.ops.stream());
  return absl::OkStatus();
}

}  // namespace kinora
