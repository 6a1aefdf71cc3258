// Heads that several ranks computed, joined to rows and gated.
#ifndef KINORA_KERNELS_JOIN_HEADS_H_
#define KINORA_KERNELS_JOIN_HEADS_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// out[row] = values[row - first_value] for `value_rows` rows from first_value on; otherwise, for `block_rows` rows from
// first_block on, row - first_block of `blocks`; other rows stay. Then, unless logits is null,
// out[row] *= 2·sigmoid(logits[row, column / head_width]), float32 inside, rounded once, for all rows.
struct JoinHeads {
  int64_t rows = 0, width = 0;
  Rows out{};
  Blocks blocks{};  // of out's type; must not overlap out
  int64_t first_block = 0, block_rows = 0;
  Rows values{};  // of out's type; must not overlap out; null: none
  int64_t first_value = 0, value_rows = 0;
  Rows logits{};  // [rows, width / head_width]
  int64_t head_width = 0;
};

// Minimum traffic: out and what it comes from once each, and the logits.
//
// Returns cudaErrorInvalidValue if there are no rows or columns, 2^31 rows or more, blocks do not fill block_rows rows
// of the width, values have another type, or heads do not fill the width.
cudaError_t LaunchJoinHeads(const JoinHeads& args, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_JOIN_HEADS_H_
