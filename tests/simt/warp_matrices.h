// Test only: operations on matrices whose elements are spread over the lanes of a warp, as the PTX ISA documents them
// for mma.m16n8k16 and ldmatrix. kernels/device/ptx.h describes the layouts.
#ifndef KINORA_TESTS_SIMT_WARP_MATRICES_H_
#define KINORA_TESTS_SIMT_WARP_MATRICES_H_

#include <array>
#include <cstdint>

#include "tests/simt/machine.h"

namespace kinora::simt {

// A lane's operands. The lane that arrives last computes the results of all.
struct TileProduct {
  float d[4];  // sums, in and out
  unsigned a[4], b[2];
};
struct MatrixLoad {
  uint4 row;  // the row that the lane's address names
  unsigned to[4];
};

// Waits until all 32 lanes of the warp have arrived with operands of the same kind. On return they hold the results.
inline void MeetWith(Meet what, void* operands, const char* file, int line) {
  WarpMeet(what, ~0u, reinterpret_cast<uint64_t>(operands), 0, 32, file, line);
}

// d += a · b for a warp, in float32, in ascending order of the 16 products.
void Multiply(const std::array<TileProduct*, 32>& lanes);
// Distributes the rows of four matrices over the lanes.
void Distribute(const std::array<MatrixLoad*, 32>& lanes, bool transposed);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_WARP_MATRICES_H_
