#include "engine/diffusion/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace kinora {

namespace {

constexpr size_t kBlock = 16;

// Box-Muller over 16 uniforms in place: value i pairs with value i + 8. Radius and angle are rounded to Real, like
// torch's; the angle's rounding alone changes a float32 value by 2e-7.
template <typename Real>
void FillSixteen(Real* out) {
  for (int i = 0; i < 8; ++i) {
    const Real u1 = 1 - out[i], theta = 2 * std::numbers::pi_v<Real> * out[i + 8];
    const Real radius = std::sqrt(-2 * std::log(u1));
    out[i] = radius * std::cos(theta);
    out[i + 8] = radius * std::sin(theta);
  }
}

}  // namespace

void NoiseSource::Uniform(absl::Span<float> values) { engine_.Uniform24(values); }
void NoiseSource::Uniform(absl::Span<double> values) {
  for (double& value : values) value = UniformDouble();
}

double NoiseSource::UniformDouble() {
  const uint64_t high = engine_(), low = engine_();
  return static_cast<double>(((high << 32) | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

double NoiseSource::NextNormal() {
  if (spare_.has_value()) {
    const double value = *spare_;
    spare_.reset();
    return value;
  }
  const double u1 = UniformDouble(), u2 = UniformDouble();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2)), theta = 2.0 * std::numbers::pi * u1;
  spare_ = radius * std::sin(theta);
  return radius * std::cos(theta);
}

template <typename Real>
std::function<void()> NoiseSource::TakeSpan(absl::Span<Real> out) {
  if (out.size() < kBlock) {
    for (Real& value : out) value = static_cast<Real>(NextNormal());
    return [] {};
  }
  Uniform(out);
  std::array<Real, kBlock> tail{};  // the last 16 values are drawn again, including some that are already final
  const bool partial = out.size() % kBlock != 0;
  if (partial) Uniform(absl::MakeSpan(tail));
  return [out, tail, partial] {
    for (size_t i = 0; i + kBlock <= out.size(); i += kBlock) FillSixteen(&out[i]);
    if (!partial) return;
    const auto last = out.last(kBlock);
    std::copy(tail.begin(), tail.end(), last.begin());
    FillSixteen(last.data());
  };
}

// Values are made in blocks of 16, so all parts but the last are whole blocks; the last is at least one.
std::function<void()> NoiseSource::TakePart(absl::Span<float>& out) {
  constexpr size_t kPart = kBlock << 16;
  const absl::Span<float> part = out.size() >= 2 * kPart ? out.first(kPart) : out;
  out.remove_prefix(part.size());
  return Take(part);
}

void NoiseSource::Skip(int64_t count) {
  constexpr int64_t kLeast = kBlock;
  if (count < kLeast) {
    for (int64_t i = 0; i < count; ++i) NextNormal();
    return;
  }
  engine_.Discard(static_cast<uint64_t>(count + (count % kLeast == 0 ? 0 : kLeast)));
}

void NoiseSource::Fill(absl::Span<float> out) { TakeSpan(out)(); }
void NoiseSource::Fill(absl::Span<double> out) { TakeSpan(out)(); }
std::function<void()> NoiseSource::Take(absl::Span<float> out) { return TakeSpan(out); }
std::function<void()> NoiseSource::Take(absl::Span<double> out) { return TakeSpan(out); }

}  // namespace kinora
