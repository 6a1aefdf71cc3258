#include "engine/diffusion/ancestral_sampler.h"

#include <algorithm>
#include <cmath>

namespace kinora {
namespace {

// Slots of a table row. Each holds the same value for all channels.
enum Slot : int { kZLessOne, kZero, kX0, kNoise, kSlots };

}  // namespace

std::vector<AncestralFactors> FactorsOfAncestral(absl::Span<const float> sigmas) {
  std::vector<AncestralFactors> all;
  for (size_t i = 0; i + 1 < sigmas.size(); ++i) {
    const float from = sigmas[i], to = sigmas[i + 1];
    if (to == 0) {
      all.push_back({.x0 = 1});
      continue;
    }
    const float down = to * (1 + (to / from - 1)), share = down / from;
    const float scale = (1 - to) / (1 - down);
    const float variance = to * to - down * down * (1 - to) * (1 - to) / ((1 - down) * (1 - down));
    all.push_back({.z = scale * share, .x0 = scale * (1 - share), .noise = std::sqrt(std::max(variance, 0.0f))});
  }
  return all;
}

void AncestralSampler::Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) {
  const std::vector<AncestralFactors> factors = FactorsOfAncestral(sigmas);
  const auto steps = static_cast<int64_t>(factors.size());
  const int64_t channels = state.z.width();
  factors_ = exec.arena.Alloc(DType::kF32, {RoomForSteps(steps), kSlots * channels});
  current_ = exec.arena.Alloc(DType::kF32, {1, kSlots * channels});
  std::vector<float> table;
  table.reserve(steps * kSlots * channels);
  for (const AncestralFactors& f : factors) {
    for (const float slot : {f.z - 1, 0.0f, f.x0, f.noise}) table.insert(table.end(), channels, slot);
  }
  exec.ops.stream().CopyFromHost(table.data(), factors_.Rows(0, steps));
  const Tensor z = state.z.Rows(0, state.layout.tokens());
  noise_ = exec.arena.Alloc(DType::kF32, z.shape());
  noises_ = exec.arena.Alloc(DType::kF32, {RoomForNoise(SamplerKind::kAncestral, steps), z.elements()});
  exec.ops.Fill(0.0f, noises_.Rows(steps - 1, steps));  // the last step adds no noise
}

void AncestralSampler::SelectStep(Exec& exec, const Tensor& step) const {
  exec.ops.GatherRows(factors_, step, 1.0f, current_);
  exec.ops.GatherRows(noises_, step, 1.0f, noise_.Reshape({1, noise_.elements()}));
}

void AncestralSampler::Step(Exec& exec, const Prediction& prediction, Tensor z) const {
  exec.ops.PredictX0(z, prediction.v, prediction.sigma, prediction.v);
  exec.ops.CombineGuidance(prediction.v, prediction.weights, prediction.cond, prediction.x0);
  MixWithClean(exec.ops, prediction, prediction.x0);
  StepWithHeld(exec, prediction, z);
}

void AncestralSampler::StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const {
  Ops& ops = exec.ops;
  const Modulation factors{.table = current_.Reshape({1, kSlots, z.width()})};
  ops.Modulate(z, {.modulation = factors, .scale_slot = kZLessOne, .shift_slot = kZero}, z);
  ops.GatedAdd(prediction.x0, {.modulation = factors, .slot = kX0}, z);
  ops.GatedAdd(noise_, {.modulation = factors, .slot = kNoise}, z);
  MixWithClean(ops, prediction, z);
}

void AncestralSampler::Finish(Exec& exec, const Prediction& prediction, Tensor z) const {
  exec.ops.stream().Copy(prediction.x0, z);  // as it is: mixed with the clean latent once
}

}  // namespace kinora
