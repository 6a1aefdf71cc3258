#include "engine/diffusion/noise.h"

#include <cmath>
#include <numbers>

namespace kinora {

float NoiseSource::UniformFloat() { return static_cast<float>(engine_() & 0xffffffu) * 0x1p-24f; }

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

// Box-Muller over 16 uniforms in place: value i pairs with value i + 8. Radius and angle are rounded to float32, as
// torch's are: the angle's rounding alone moves a value by 2e-7.
void NoiseSource::FillSixteen(float* out) {
  for (int i = 0; i < 8; ++i) {
    const float u1 = 1.0f - out[i], theta = 2.0f * std::numbers::pi_v<float> * out[i + 8];
    const float radius = std::sqrt(-2.0f * std::log(u1));
    out[i] = radius * std::cos(theta);
    out[i + 8] = radius * std::sin(theta);
  }
}

void NoiseSource::Fill(absl::Span<float> out) {
  constexpr size_t kBlock = 16;
  if (out.size() < kBlock) {
    for (float& value : out) value = static_cast<float>(NextNormal());
    return;
  }
  for (float& value : out) value = UniformFloat();
  for (size_t i = 0; i + kBlock <= out.size(); i += kBlock) FillSixteen(&out[i]);
  if (out.size() % kBlock != 0) {  // the last sixteen are drawn anew, over some that were already done
    const auto tail = out.last(kBlock);
    for (float& value : tail) value = UniformFloat();
    FillSixteen(tail.data());
  }
}

}  // namespace kinora
