// Copies rows, converting their type.
#ifndef KINORA_KERNELS_COPY_ROWS_H_
#define KINORA_KERNELS_COPY_ROWS_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// to[row, i] = from[row, i], rounded to nearest even if `to` is narrower. Rows of equal type keep their bits, so other
// four-byte types pass as kF32. from and to must not overlap. Minimum traffic: each once.
// Returns cudaErrorInvalidValue if there are no rows or no columns.
cudaError_t LaunchCopyRows(const Rows& from, const Rows& to, int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_COPY_ROWS_H_
