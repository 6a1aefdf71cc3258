#include "engine/diffusion/res2s_sampler.h"

#include <algorithm>
#include <cmath>

namespace kinora {
namespace {

constexpr float kLast = 0.0011f;  // replaces 0, which has no logarithm
constexpr double kNoiseShare = 0.5;

// Slots of a row of factors.
enum Slot : int { kAnchorLessOne, kZero, kX0, kHeld, kNoise, kNextAnchorLessOne, kNextX0, kNextZ, kSlots };

// φ₁(−h), φ₂(−h).
double Phi1(double h) { return std::abs(h) < 1e-10 ? 1 : (std::exp(-h) - 1) / -h; }
double Phi2(double h) { return std::abs(h) < 1e-10 ? 0.5 : (std::exp(-h) - 1 + h) / (h * h); }

// Adds noise n in a step: x ↦ keep·(x + towards·(x − x')) + noise·n. x': result of the step without noise.
struct NoiseStep {
  double keep, towards, noise;
};
// The step from level `from` to level `to`. Real: the reference's precision.
template <typename Real>
NoiseStep StepWithNoise(Real from, Real to) {
  const Real up = std::min(to * static_cast<Real>(kNoiseShare), to * static_cast<Real>(0.9999));
  const Real rest = std::sqrt(std::max(to * to - up * up, Real{0}));
  const Real keep = (1 - to) + rest, down = rest / keep;
  return {.keep = keep, .towards = (static_cast<double>(down) - from) / (from - to), .noise = up};
}

// Returns sigmas with kLast in place of the final 0.
std::vector<float> Positive(absl::Span<const float> sigmas) {
  std::vector<float> levels(sigmas.begin(), sigmas.end());
  levels.back() = kLast;
  return levels;
}

double HalfWay(float from, float to) { return std::sqrt(static_cast<double>(from) * static_cast<double>(to)); }

// Sets the factors of the anchor after the hundred rounds, as a sum of the anchor, x0 and z.
void AddRounds(double pull, Res2sFactors& factors) {
  constexpr int kRounds = 100;
  for (int i = 0; i < kRounds; ++i) {
    factors.next_anchor *= pull;
    factors.next_x0 = pull * (factors.next_x0 - 1);
    factors.next_z = pull * factors.next_z + 1;
  }
}

}  // namespace

std::vector<float> Res2sLevels(absl::Span<const float> sigmas) {
  const std::vector<float> levels = Positive(sigmas);
  std::vector<float> evaluated;
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    evaluated.insert(evaluated.end(), {levels[i], static_cast<float>(HalfWay(levels[i], levels[i + 1]))});
  }
  evaluated.push_back(kLast);
  return evaluated;
}

std::vector<Res2sFactors> FactorsOfRes2s(absl::Span<const float> sigmas) {
  const std::vector<float> levels = Positive(sigmas);
  std::vector<Res2sFactors> all;
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    const double h = -std::log(static_cast<double>(levels[i + 1]) / static_cast<double>(levels[i]));
    const double a21 = 0.5 * Phi1(h / 2), b2 = Phi2(h) / 0.5, b1 = Phi1(h) - b2, pull = h * a21;
    const NoiseStep half = StepWithNoise<double>(levels[i], HalfWay(levels[i], levels[i + 1]));
    Res2sFactors first{.anchor = half.keep * (1 + half.towards * pull),
                       .x0 = -half.keep * half.towards * pull,
                       .noise = half.noise,
                       .next_anchor = 1};
    if (h < 0.5 && levels[i] > 0.03) AddRounds(pull, first);
    all.push_back(first);
    const NoiseStep whole = StepWithNoise<float>(levels[i], levels[i + 1]);
    all.push_back({.anchor = whole.keep * (1 + whole.towards * h * (b1 + b2)),
                   .x0 = -whole.keep * whole.towards * h * b2,
                   .held = -whole.keep * whole.towards * h * b1,
                   .noise = whole.noise,
                   .next_z = 1});
  }
  all.push_back({.x0 = 1});
  return all;
}

void Res2sSampler::Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) {
  std::vector<float> factors;
  for (const Res2sFactors& f : FactorsOfRes2s(sigmas)) {
    for (const double slot : {f.anchor - 1, 0.0, f.x0, f.held, f.noise, f.next_anchor - 1, f.next_x0, f.next_z}) {
      factors.push_back(static_cast<float>(slot));
    }
  }
  ReserveTables(exec, SamplerKind::kRes2s, kSlots, factors, state);
  const Tensor z = state.z.Rows(0, state.layout.tokens());
  for (Tensor* kept : {&anchor_, &held_}) *kept = exec.arena.Alloc(DType::kF32, z.shape());
  exec.ops.stream().Copy(z, anchor_);
  exec.ops.Fill(0.0f, held_);
}

void Res2sSampler::StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const {
  Ops& ops = exec.ops;
  const Modulation factors = Factors();
  ops.Modulate(anchor_, {.modulation = factors, .scale_slot = kAnchorLessOne, .shift_slot = kZero}, z);
  ops.GatedAdd(prediction.x0, {.modulation = factors, .slot = kX0}, z);
  ops.GatedAdd(held_, {.modulation = factors, .slot = kHeld}, z);
  ops.GatedAdd(SelectedNoise(), {.modulation = factors, .slot = kNoise}, z);
  MixWithClean(ops, prediction, z);
  ops.Modulate(anchor_, {.modulation = factors, .scale_slot = kNextAnchorLessOne, .shift_slot = kZero}, anchor_);
  ops.GatedAdd(prediction.x0, {.modulation = factors, .slot = kNextX0}, anchor_);
  ops.GatedAdd(z, {.modulation = factors, .slot = kNextZ}, anchor_);
  ops.stream().Copy(prediction.x0, held_);
}

std::vector<std::pair<const char*, Tensor>> Res2sSampler::Carried() const {
  return {{"anchor", anchor_}, {"held", held_}};
}

}  // namespace kinora
