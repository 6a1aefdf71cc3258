#include "engine/ops/rope_angles.h"

#include <cmath>

namespace kinora {

void FillRopeRows(const RopeAngles& angles, int64_t begin, int64_t end, const Tensor& cos, const Tensor& sin) {
  const int64_t axes = angles.fractions.dim(0), tokens = angles.fractions.dim(1), columns = cos.width();
  const float* const fractions = angles.fractions.data<float>();
  const float* const frequencies = angles.frequencies.data<float>();
  for (int64_t token = begin; token < end; ++token) {
    for (int64_t column = 0; column < columns; ++column) {
      float c = 1.0f, s = 0.0f;
      if (const int64_t turned = angles.first_column + column - angles.pad; turned >= 0) {
        const float angle = fractions[turned % axes * tokens + token] * frequencies[turned / axes];
        c = std::cos(angle);
        s = std::sin(angle);
      }
      cos.data<float>()[token * columns + column] = c;
      sin.data<float>()[token * columns + column] = s;
    }
  }
}

}  // namespace kinora
