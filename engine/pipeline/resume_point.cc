#include "engine/pipeline/resume_point.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/parallel/agree.h"

namespace kinora {
namespace {

absl::StatusOr<const HostArray*> Find(const ResumePoint& point, const std::string& name, const Shape& shape) {
  const auto found = point.values.find(name);
  if (found == point.values.end()) return absl::InvalidArgumentError(Cat("resume point: ", name, " is missing"));
  const HostArray& value = found->second;
  const bool fits = value.shape.size() == 2 && Shape(value.shape) == shape;
  if (fits && static_cast<int64_t>(value.values.size()) == shape.elements()) return &value;
  return absl::InvalidArgumentError(Cat("resume point: ", name, ": shape [", absl::StrJoin(value.shape, ", "),
                                        "], but this run needs ", shape.ToString()));
}

}  // namespace

absl::Status CheckResumePoint(const RunPlan& plan, const ResumePoint& point) {
  const auto stages = static_cast<int64_t>(plan.stages.size());
  if (point.stage < 0 || point.stage >= stages || plan.stages[point.stage].kind != StageKind::kDenoise) {
    return absl::InvalidArgumentError(Cat("resume point: stage ", point.stage, " of the plan does not denoise"));
  }
  const StagePlan& stage = plan.stages[point.stage];
  if (point.step < 1 || point.step > stage.steps) {
    return absl::InvalidArgumentError(
        Cat("resume point: step ", point.step, " of stage ", stage.stage().name(), ", which has ", stage.steps));
  }
  for (const auto& [name, shape] : stage.carried) KINORA_RETURN_IF_ERROR(Find(point, name, shape).status());
  for (const auto& [name, value] : point.values) {
    const auto same = [&, &name = name](const CarriedShape& carried) { return carried.name == name; };
    if (std::any_of(stage.carried.begin(), stage.carried.end(), same)) continue;
    return absl::InvalidArgumentError(Cat("resume point: ", name, ": not a value of this run"));
  }
  return absl::OkStatus();
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
      KINORA_ASSIGN_OR_RETURN(const HostArray* const value, Find(*point, wanted.name, wanted.value.shape()));
      exec.ops.stream().CopyFromHost(value->values.data(), wanted.value);
    }
    return absl::OkStatus();
  }));
  for (const CarriedTensor& wanted : carried) exec.mesh.world().Broadcast(0, wanted.value, exec.ops.stream());
  return absl::OkStatus();
}

}  // namespace kinora
