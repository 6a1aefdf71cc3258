// Kernels that call the warp's matrix operations once, on operands as the test lays them out.
#ifndef KINORA_TESTS_SIMT_MATRICES_H_
#define KINORA_TESTS_SIMT_MATRICES_H_

#include <cuda_runtime.h>

namespace kinora::simt {

// A lane's words of a, b and the sums: MultiplyTiles is called with operands[lane].
struct LaneOperands {
  unsigned a[4], b[2];
  float d[4];
};

enum class MatrixFault {
  kHalfAWarp,      // half of the lanes call
  kTwoOperations,  // some lanes call one operation, some another
  kMisaligned,     // a row that does not begin at 16 bytes
};

cudaError_t LaunchMultiply(LaneOperands* operands, cudaStream_t stream);
// rows: four matrices of 8 x 8 bf16 -> words[lane], the lane's word of each.
cudaError_t LaunchLoadMatrices(const uint4* rows, uint4* words, bool transposed, cudaStream_t stream);
cudaError_t LaunchMatrixFault(MatrixFault fault, float* x, cudaStream_t stream);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_MATRICES_H_
