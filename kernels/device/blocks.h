// Addresses in a matrix that is stored in blocks (rows.h).
#ifndef KINORA_KERNELS_DEVICE_BLOCKS_H_
#define KINORA_KERNELS_DEVICE_BLOCKS_H_

#include "kernels/device/device.h"
#include "kernels/rows.h"

namespace kinora::kernels {

// The element at a row and a column lies RowOffset + ColumnOffset behind the first. Rows and columns are below 2^31.
__device__ __forceinline__ int64_t RowOffset(const Blocks& b, int64_t row) {
  const auto at = static_cast<uint32_t>(row), rows = static_cast<uint32_t>(b.rows);
  return (int64_t{at / rows} * b.count * b.rows + at % rows) * b.stride;
}
__device__ __forceinline__ int64_t ColumnOffset(const Blocks& b, int64_t column) {
  const auto at = static_cast<uint32_t>(column), width = static_cast<uint32_t>(b.width);
  return int64_t{at / width} * b.rows * b.stride + at % width;
}

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_DEVICE_BLOCKS_H_
