#include "engine/diffusion/ancestral_sampler.h"

#include <algorithm>
#include <cmath>

namespace kinora {
namespace {

// Slots of a row of factors.
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
  std::vector<float> factors;
  for (const AncestralFactors& f : FactorsOfAncestral(sigmas)) {
    factors.insert(factors.end(), {f.z - 1, 0.0f, f.x0, f.noise});
  }
  ReserveTables(exec, SamplerKind::kAncestral, kSlots, factors, state);
}

void AncestralSampler::StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const {
  Ops& ops = exec.ops;
  ops.Modulate(z, {.modulation = Factors(), .scale_slot = kZLessOne, .shift_slot = kZero}, z);
  ops.GatedAdd(prediction.x0, {.modulation = Factors(), .slot = kX0}, z);
  ops.GatedAdd(SelectedNoise(), {.modulation = Factors(), .slot = kNoise}, z);
  MixWithClean(ops, prediction, z);
}

}  // namespace kinora
