// Group norms: means and variances over neighbouring columns of many rows, in a fixed order.
#ifndef KINORA_KERNELS_GROUP_NORM_H_
#define KINORA_KERNELS_GROUP_NORM_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// A block's result of the first launch, for the second.
struct GroupPart {
  double sum, squares;
};

// Returns the number of parts in which the rows of a sample are summed.
int GroupNormParts(int64_t rows);

// out = (x − mean) · rsqrt(variance + eps) · weight + bias, with mean and variance (of the population, from sums in
// double) over the width / groups columns of a group in the rows of a sample; plus the residual, if any, then silu if
// `silu` is set. out may be x but not the residual. Two launches. Minimum traffic: x twice, residual and out once.
struct GroupNorm {
  Rows x, residual, out;  // [samples · rows, width]; residual: of x's type, data null for none
  int64_t samples = 1, rows = 0, width = 0, groups = 1;
  const float *weight = nullptr, *bias = nullptr;  // [width]
  float eps = 1e-5f;
  bool silu = false;
  GroupPart* parts = nullptr;  // [samples · groups · GroupNormParts(rows)], for use between the launches
};

// Returns cudaErrorInvalidValue if there is nothing to do, groups do not divide the columns, an operand is missing, the
// residual has another type, or there are more than 2^31 parts.
cudaError_t LaunchGroupNorm(const GroupNorm& args, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_GROUP_NORM_H_
