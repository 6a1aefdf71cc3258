#include "engine/weights/weight_delta.h"

#include <algorithm>
#include <vector>

namespace kinora {

LowRankDelta::LowRankDelta(const Tensor& up, const Tensor& down, float strength)
    : up_(up), down_(down), strength_(strength) {
  KINORA_CHECK(up.shape().rank() == 2 && down.shape().rank() == 2 && up.dim(1) == down.dim(0))
      << up.shape().ToString() << " times " << down.shape().ToString();
  KINORA_CHECK(up.contiguous() && down.contiguous());
}

void LowRankDelta::AddTo(const Block& block, float* values) const {
  const int64_t rank = down_.dim(0), in = down_.dim(1);
  KINORA_CHECK(block.row + block.rows <= up_.dim(0) && block.column + block.columns <= in) << up_.shape().ToString();
  std::vector<float> sum(block.columns);
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* up = up_.data<float>() + (block.row + row) * rank;
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t r = 0; r < rank; ++r) {
      const float* down = down_.data<float>() + r * in + block.column;
      for (int64_t i = 0; i < block.columns; ++i) sum[i] += up[r] * down[i];
    }
    float* to = values + row * block.columns;
    for (int64_t i = 0; i < block.columns; ++i) to[i] += strength_ * sum[i];
  }
}

}  // namespace kinora
