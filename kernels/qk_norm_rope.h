// RMS norm and rotation of queries and keys, in place, both tensors in one launch.
#ifndef KINORA_KERNELS_QK_NORM_ROPE_H_
#define KINORA_KERNELS_QK_NORM_ROPE_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// x[rows, width] in place: each group of columns times rsqrt(Σx² / full_group + eps) and its weight, unless weight is
// null; then, unless cos is null, the pairs (j, j + head_width/2) of each head are rotated:
//   (a, b) -> (a·cos − b·sin, b·cos + a·sin)
// by the row's table row, i mod table_rows. float32 inside, rounded once.
struct NormRope {
  int64_t rows = 0, width = 0;
  Rows x{};
  const float* weight = nullptr;  // [group]
  int64_t group = 0;              // columns: the width, a head, or anything else that divides the width
  int64_t full_group = 0;         // columns that the sums are means over
  const float* sums = nullptr;    // [rows, width / group], Σx²; null: computed
  float eps = 1e-6f;
  const float *cos = nullptr, *sin = nullptr;  // [table_rows, table_width]
  int64_t table_rows = 0;
  int64_t table_width = 0;  // width / 2, or head_width / 2: shared by all heads
  int64_t head_width = 0;
};

// q and k may differ in all but their type; k.x.data null: q alone. They may be columns of one packed tensor.
//
// Heads of whole vectors (head_width % 16 == 0, rows and tables aligned to 16 bytes, at most 8,192 columns, groups
// that are the width, a head of 16·2ⁿ columns, or given sums of whole heads): the row stays in registers, a thread
// holds both members of its pairs, tables and weights are read once for up to four rows that share them, and q and k of
// equal tokens run beside each other, so that the second finds the tables in the second-level cache. All else: two
// passes over the row, element by element. Sums run in one order that depends on the widths alone.
//
// Bytes at least: q and k once each way, a table row once.
//
// cudaErrorInvalidValue: no rows, more than 2^31 − 1 of both, a group, head or table that does not fit the width,
// tables without rows, sin without cos, types that differ, or more groups than shared memory holds floats.
cudaError_t LaunchQkNormRope(const NormRope& q, const NormRope& k, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_QK_NORM_ROPE_H_
