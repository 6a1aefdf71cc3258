#include "engine/model/rope.h"

#include <cmath>
#include <numbers>

#include "engine/base/check.h"

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

void FillRopeTable(const RopeShape& shape, absl::Span<const std::vector<float>> positions, int64_t begin, int64_t end,
                   float* cos, float* sin) {
  const int64_t axes = static_cast<int64_t>(positions.size()), half = shape.width / 2, count = half / axes;
  KINORA_CHECK(axes >= 1 && positions.size() == shape.max_positions.size() && 0 <= begin && begin <= end &&
               end <= half);
  const int64_t tokens = static_cast<int64_t>(positions[0].size()), pad = half - count * axes, columns = end - begin;
  const std::vector<float> frequencies = Frequencies(shape, count);
  for (int64_t token = 0; token < tokens; ++token) {
    for (int64_t column = begin; column < end; ++column) {
      float c = 1.0f, s = 0.0f;
      if (column >= pad) {
        const int64_t axis = (column - pad) % axes, k = (column - pad) / axes;
        const float fraction = positions[axis][token] / static_cast<float>(shape.max_positions[axis]);
        const float angle = (fraction * 2.0f - 1.0f) * frequencies[k];
        c = std::cos(angle);
        s = std::sin(angle);
      }
      cos[token * columns + column - begin] = c;
      sin[token * columns + column - begin] = s;
    }
  }
}

}  // namespace kinora
