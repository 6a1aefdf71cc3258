#include "kernels/device/device.h"
#include "tests/simt/matrices.h"

namespace kinora::simt {
namespace {

__global__ void Multiplies(LaneOperands* operands) {
  LaneOperands mine = operands[threadIdx.x];
  MultiplyTiles(mine.d, mine.a, mine.b[0], mine.b[1]);
  operands[threadIdx.x] = mine;
}

__global__ void Loads(const uint4* rows, uint4* words, bool transposed) {
  SHARED_ARRAY(uint4, shared, 32);
  shared[threadIdx.x] = rows[threadIdx.x];
  __syncwarp();
  unsigned to[4];
  if (transposed) {
    LoadTransposed(to, shared + threadIdx.x);
  } else {
    LoadMatrices(to, shared + threadIdx.x);
  }
  words[threadIdx.x] = make_uint4(to[0], to[1], to[2], to[3]);
}

__global__ void Wrong(MatrixFault fault, float* x) {
  SHARED_ARRAY(uint4, shared, 33);
  shared[threadIdx.x] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x == 0) shared[32] = make_uint4(0, 0, 0, 0);
  __syncwarp();
  const unsigned a[4] = {};
  float d[4] = {};
  unsigned to[4] = {};
  if (fault == MatrixFault::kHalfAWarp) {
    if (threadIdx.x < 16) MultiplyTiles(d, a, 0, 0);
  } else if (fault == MatrixFault::kTwoOperations) {
    if (threadIdx.x % 2 == 0) {
      LoadMatrices(to, shared + threadIdx.x);
    } else {
      LoadTransposed(to, shared + threadIdx.x);
    }
  } else {
    LoadMatrices(to, reinterpret_cast<const unsigned char*>(shared + threadIdx.x) + 8);
  }
  x[threadIdx.x] = d[0] + static_cast<float>(to[0]);
}

}  // namespace

cudaError_t LaunchMultiply(LaneOperands* operands, cudaStream_t s) { return Launch(Multiplies, 1, 32, 0, s, operands); }
cudaError_t LaunchLoadMatrices(const uint4* rows, uint4* words, bool transposed, cudaStream_t s) {
  return Launch(Loads, 1, 32, 0, s, rows, words, transposed);
}
cudaError_t LaunchMatrixFault(MatrixFault fault, float* x, cudaStream_t s) {
  return Launch(Wrong, 1, 32, 0, s, fault, x);
}

}  // namespace kinora::simt
