// Kernels with one error each, and two correct ones.
#ifndef KINORA_TESTS_SIMT_FAULTS_H_
#define KINORA_TESTS_SIMT_FAULTS_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::simt {

enum class Fault : uint8_t {
  kNoBarrier,
  kNoSecondBarrier,
  kReadsPast,
  kWritesPastShared,
  kHalfABarrier,
  kTwoBarriers,
  kInactiveLane,
  kLeavesEarly,
  kLanesDisagree,
  kReturnsBeforeABarrier,
  kMisaligned,
  kMisalignedCopy,
  kNoWait,
  kUninitialised,
  kNotAtomic,
  kAsIfBlocksRanInOrder,
  kTooMuchShared,
  kNeverWaits,
  kReadsBeforeItWaits,
};
inline constexpr int kFaultElements = 130;  // of x and of y; both start as 0, 1, 2, …

cudaError_t LaunchFault(Fault fault, float* x, float* y, cudaStream_t stream);
// LaunchDouble computes x[i] *= 2, LaunchAdd x[i] += y[i], for i < 64.
cudaError_t LaunchDouble(float* x, cudaStream_t stream);
cudaError_t LaunchAdd(float* x, const float* y, cudaStream_t stream);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_FAULTS_H_
