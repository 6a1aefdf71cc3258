// Sums over rows, and normalisation by sums over a whole tensor. All sums have a fixed order.
#ifndef KINORA_KERNELS_REDUCTIONS_H_
#define KINORA_KERNELS_REDUCTIONS_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// out[row] = Σ x² of the row, in float32. Minimum traffic: x once.
// Returns cudaErrorInvalidValue if there are no rows, more than 2^31 − 1 rows, or no columns.
cudaError_t LaunchSumOfSquares(const Rows& x, int64_t rows, int64_t width, float* out, cudaStream_t stream);

// A block's result of the first launch, for the second.
struct RangePart {
  double sum;
  float minimum, maximum;
};
inline constexpr int kRangeParts = 256;

// out = scale · (x − mean) / (max − min + eps), each statistic over the whole of x; mean = Σx / (elements + eps),
// summed in double. out may be x. Two launches. Minimum traffic: x twice, out once.
struct NormalizeRange {
  Rows x, out;
  int64_t rows = 0, width = 0;
  float scale = 1.0f, eps = 0.0f;
  RangePart* parts = nullptr;  // [kRangeParts], for use between the launches
};

// Returns cudaErrorInvalidValue if there are no rows or no columns.
cudaError_t LaunchNormalizeRange(const NormalizeRange& args, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_REDUCTIONS_H_
