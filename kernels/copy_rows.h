// Rows from one place to another, with a change of type on the way.
#ifndef KINORA_KERNELS_COPY_ROWS_H_
#define KINORA_KERNELS_COPY_ROWS_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// to[row, i] = from[row, i], rounded to nearest even where `to` is narrower. Rows of equal type keep their bits, so
// other types of four bytes pass as kF32. They must not overlap. Bytes at least: each once.
// cudaErrorInvalidValue: no rows or no columns.
cudaError_t LaunchCopyRows(const Rows& from, const Rows& to, int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_COPY_ROWS_H_
