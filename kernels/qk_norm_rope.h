// RMS norm and rotation of queries and keys, both tensors in one launch: in place, or with the values into blocks.
#ifndef KINORA_KERNELS_QK_NORM_ROPE_H_
#define KINORA_KERNELS_QK_NORM_ROPE_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// x[rows, width] in place: unless weight is null, multiplies each group of columns by rsqrt(Σx² / full_group + eps)
// and its weight; then, unless cos is null, rotates the pairs (j, j + head_width/2) of each head:
//   (a, b) -> (a·cos − b·sin, b·cos + a·sin)
// with table row i mod table_rows for row i. With frame tables, pairs j < frame_width turn by row i / table_rows of
// those instead. float32 inside, rounded once.
struct NormRope {
  int64_t rows = 0, width = 0;
  Rows x{};
  const float* weight = nullptr;  // [group]
  int64_t group = 0;              // columns: the width, a head, or another divisor of the width
  int64_t full_group = 0;         // columns over which the sums are averaged
  const float* sums = nullptr;    // [rows, width / group], Σx²; null: computed from x
  float eps = 1e-6f;
  const float *cos = nullptr, *sin = nullptr;  // [table_rows, table_width]
  int64_t table_rows = 0;
  int64_t table_width = 0;  // width / 2, or head_width / 2: shared by all heads
  int64_t head_width = 0;
  const float *frame_cos = nullptr, *frame_sin = nullptr;  // [frames, frame_width]; only with tables for all heads
  int64_t frames = 0;
  int64_t frame_width = 0;  // at most table_width
  Blocks to{};  // of x's type; must not overlap an x: the result goes there instead of to x. data null: in place
};

// q and k must have the same type and may differ in all else; k.x.data null: only q. They may be columns of one packed
// tensor.
//
// The fast path needs heads of whole vectors: head_width % 16 == 0, rows and tables aligned to 16 bytes, at most 8,192
// columns, groups that are the width, a head of 16·2ⁿ columns, or given sums of whole heads, and frame_width % 8 == 0.
// The row then stays in registers, a thread holds both members of its pairs, tables and weights are read once for up to
// four rows that share them, and q and k of equal tokens run side by side, so that the second finds the tables in the
// second-level cache. Otherwise there are two passes over the row, element by element. The order of sums depends on the
// widths alone.
//
// Minimum traffic: q and k once each way, a table row once.
//
// Returns cudaErrorInvalidValue if there are no rows or more than 2^31 − 1 in total, a group, head or table does not
// fit the width, tables have no rows, frames do not suffice for the rows, only one of cos and sin is given, types
// differ, or shared memory cannot hold a float per group.
cudaError_t LaunchQkNormRope(const NormRope& q, const NormRope& k, cudaStream_t stream);

// The same with a third tensor and with all results in blocks (NormRope::to, the columns of each tensor's own), so that
// what ranks exchange needs no packing. v: neither weight nor tables: copied. Results have the bits of those in place.
//
// Minimum traffic: q, k and v once each way, a table row once. Returns cudaErrorInvalidValue also if blocks do not fill
// a tensor's rows and width.
cudaError_t LaunchQkNormRopeToBlocks(const NormRope& q, const NormRope& k, const NormRope& v, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_QK_NORM_ROPE_H_
