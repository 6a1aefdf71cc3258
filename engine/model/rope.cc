#include "engine/model/rope.h"

#include <cmath>
#include <numbers>

#include "engine/base/check.h"
#include "engine/ops/rope_angles.h"

namespace kinora {
namespace {

std::vector<float> Frequencies(const RopeShape& shape, int64_t count) {
  std::vector<float> frequencies(count);
  for (int64_t k = 0; k < count; ++k) {
    const double exponent = count > 1 ? static_cast<double>(k) / static_cast<double>(count - 1) : 0.0;
    frequencies[k] = shape.double_precision ? static_cast<float>(std::pow(shape.theta, exponent) * std::numbers::pi / 2)
                                            : std::pow(static_cast<float>(shape.theta), static_cast<float>(exponent)) *
                                                  std::numbers::pi_v<float> / 2;
  }
  return frequencies;
}

}  // namespace

RopeFactors FactorsOfRope(const RopeShape& shape, absl::Span<const std::vector<float>> positions) {
  const int64_t axes = static_cast<int64_t>(positions.size()), half = shape.width / 2;
  KINORA_CHECK(axes >= 1 && positions.size() == shape.max_positions.size());
  RopeFactors factors{
      .fractions = {}, .frequencies = Frequencies(shape, half / axes), .pad = half - half / axes * axes};
  for (int64_t axis = 0; axis < axes; ++axis) {
    for (const float position : positions[axis]) {
      const float fraction = position / static_cast<float>(shape.max_positions[axis]);
      factors.fractions.push_back(fraction * 2.0f - 1.0f);
    }
  }
  return factors;
}

void FillRopeTable(const RopeShape& shape, absl::Span<const std::vector<float>> positions, int64_t begin, int64_t end,
                   float* cos, float* sin) {
  RopeFactors factors = FactorsOfRope(shape, positions);
  KINORA_CHECK(0 <= begin && begin <= end && end <= shape.width / 2);
  const int64_t axes = static_cast<int64_t>(positions.size()), tokens = static_cast<int64_t>(positions[0].size());
  const Shape table{tokens, end - begin}, count{static_cast<int64_t>(factors.frequencies.size())};
  const RopeAngles angles{.fractions = Tensor(DType::kF32, {axes, tokens}, factors.fractions.data()),
                          .frequencies = Tensor(DType::kF32, count, factors.frequencies.data()),
                          .pad = factors.pad,
                          .first_column = begin};
  FillRopeRows(angles, 0, tokens, Tensor(DType::kF32, table, cos), Tensor(DType::kF32, table, sin));
}

}  // namespace kinora
