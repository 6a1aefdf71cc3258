#include "engine/diffusion/sampler.h"

#include "engine/diffusion/ancestral_sampler.h"
#include "engine/diffusion/res2s_sampler.h"

namespace kinora {

std::vector<float> EvaluationLevels(SamplerKind kind, absl::Span<const float> sigmas) {
  if (kind == SamplerKind::kRes2s) return Res2sLevels(sigmas);
  return {sigmas.begin(), sigmas.end() - 1};
}

int64_t HeldStep(SamplerKind kind, int64_t evaluation, int64_t evaluations) {
  if (kind != SamplerKind::kRes2s) return evaluation;
  if (evaluation + 1 == evaluations) return evaluation / 2;
  return evaluation % 2 == 0 ? evaluation / 2 : 0;  // half-way evaluations always need a prediction
}

void EulerSampler::Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState&) {
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

void EulerSampler::StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const {
  exec.ops.EulerStep(prediction.x0, current_.Reshape({2}), z);
}

std::unique_ptr<Sampler> MakeSampler(SamplerKind kind) {
  if (kind == SamplerKind::kRes2s) return std::make_unique<Res2sSampler>();
  if (kind == SamplerKind::kAncestral) return std::make_unique<AncestralSampler>();
  return std::make_unique<EulerSampler>();
}

std::unique_ptr<StepNoise> MakeStepNoise(SamplerKind kind, uint64_t seed) {
  if (kind == SamplerKind::kRes2s) return std::make_unique<Res2sNoise>();
  if (kind == SamplerKind::kAncestral) return std::make_unique<AncestralNoise>(seed);
  return nullptr;
}

void MixWithClean(Ops& ops, const Prediction& p, Tensor x) {
  if (!p.clean.defined()) return;
  ops.Modulate(x, {.modulation = p.mask, .scale_slot = 0, .shift_slot = 1}, x);
  ops.GatedAdd(p.clean, {.modulation = p.mask, .slot = 2}, x);
}

}  // namespace kinora
