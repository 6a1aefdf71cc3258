#include "engine/diffusion/sampler.h"

#include <vector>

namespace kinora {

void EulerSampler::Reserve(Exec& exec, absl::Span<const float> sigmas) {
  const int64_t steps = static_cast<int64_t>(sigmas.size()) - 1;
  schedule_ = exec.arena.Alloc(DType::kF32, {RoomForSteps(steps), 2});
  current_ = exec.arena.Alloc(DType::kF32, {1, 2});
  std::vector<float> pairs;
  for (int64_t i = 0; i < steps; ++i) pairs.insert(pairs.end(), {sigmas[i], sigmas[i + 1]});
  exec.ops.stream().CopyFromHost(pairs.data(), schedule_.Rows(0, steps));
}

void EulerSampler::SelectStep(Exec& exec, const Tensor& step) const {
  exec.ops.GatherRows(schedule_, step, 1.0f, current_);
}

void EulerSampler::Step(Exec& exec, const Prediction& prediction, Tensor z) const {
  exec.ops.GuidedEulerStep(prediction, current_.Reshape({2}), z);
}

void EulerSampler::StepWithHeld(Exec& exec, const Tensor& x0, Tensor z) const {
  exec.ops.EulerStep(x0, current_.Reshape({2}), z);
}

std::unique_ptr<Sampler> MakeSampler(SamplerKind kind) {
  switch (kind) {
    case SamplerKind::kEuler:
      break;
  }
  return std::make_unique<EulerSampler>();
}

}  // namespace kinora
