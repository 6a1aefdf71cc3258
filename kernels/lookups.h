// Rows of a table by their numbers, and the sinusoids of time steps.
#ifndef KINORA_KERNELS_LOOKUPS_H_
#define KINORA_KERNELS_LOOKUPS_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// out[i] = table[ids[i]] · factor for `rows` rows. A row whose id is not in [0, table_rows) becomes NaN, so that the
// error is visible in all results; nothing outside the table is read.
struct GatherRows {
  Rows table, out;
  const int32_t* ids = nullptr;  // [rows]
  int64_t table_rows = 0, rows = 0, width = 0;
  float factor = 1.0f;
};

// Minimum traffic: the rows read and written, once each. Returns cudaErrorInvalidValue if there are no rows or columns,
// or the table is empty.
cudaError_t LaunchGatherRows(const GatherRows& args, cudaStream_t stream);

// out[row, i] = cos, out[row, half + i] = sin of t[row] · exp(−ln(10000)·i/half), i < half. Angles reach thousands,
// so the exponential is rounded once, from double, and the accurate sine and cosine are used.
// Returns cudaErrorInvalidValue if there are no rows or no columns.
cudaError_t LaunchTimestepEmbedding(const float* t, float* out, int64_t out_stride, int64_t rows, int64_t half,
                                    cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_LOOKUPS_H_
