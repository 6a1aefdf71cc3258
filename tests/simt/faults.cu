// Kernels with one error each. simt_test.cc lists how each is detected.
#include "kernels/device/device.h"
#include "tests/simt/faults.h"

namespace kinora::simt {
namespace {

using kernels::kFullWarp;

__global__ void NoBarrier(float* x) {  // reverses through shared memory
  SHARED_ARRAY(float, s, 128);
  s[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}

__global__ void NoSecondBarrier(float* x) {  // between a read and the next write: correct in ascending order
  SHARED_ARRAY(float, s, 1);
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) s[0] = static_cast<float>(i + 1);
    __syncthreads();
    x[threadIdx.x] = s[0];
  }
}

__global__ void ReadsPast(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) y[min(i, n - 1)] = x[i];
}

__global__ void WritesPastShared(float* x) {
  float* s = DynamicShared<float>();
  s[threadIdx.x + 1] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];
}

__global__ void HalfABarrier(float* x) {
  if (threadIdx.x < 40) __syncthreads();
  x[threadIdx.x] = __shfl_xor_sync(kFullWarp, 1.0f, 1);
}

__global__ void TwoBarriers(float* x) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  x[threadIdx.x] = 1;
}

__global__ void InactiveLane(float* x) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_down_sync(0x0000ffffu, 1.0f, 8);
}

__global__ void LeavesEarly(float* x) {
  if (threadIdx.x < 20) return;
  x[threadIdx.x] = __shfl_xor_sync(kFullWarp, 1.0f, 1);
}

__global__ void LanesDisagree(float* x) {
  if (threadIdx.x % 2 == 0) {
    x[threadIdx.x] = __shfl_xor_sync(kFullWarp, 1.0f, 1);
  } else {
    x[threadIdx.x] = __shfl_down_sync(kFullWarp, 1.0f, 1);
  }
}

__global__ void ReturnsBeforeABarrier(float* x) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  x[threadIdx.x] = 1;
}

__global__ void Misaligned(float* x) { *reinterpret_cast<float4*>(x + 4 * threadIdx.x + 1) = make_float4(1, 2, 3, 4); }

__global__ void MisalignedCopy(float* x, float* y) {
  SHARED_ARRAY(float, s, 128);
  CopyAsync16(s, y + 1);
  CommitCopies();
  WaitCopies<0>();
  x[0] = s[0];
}

__global__ void NoWait(const float* x, float* y) {
  SHARED_ARRAY(float, s, 128);
  CopyAsync16(s + threadIdx.x * 4, x + threadIdx.x * 4);
  CommitCopies();
  __syncthreads();
  for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = s[threadIdx.x * 4 + i];
}

__global__ void Uninitialised(float* y) {
  SHARED_ARRAY(float, s, 64);
  if (threadIdx.x != 3) s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}

__global__ void NotAtomic(float* sum) { sum[0] += 1.0f; }

__global__ void AsIfBlocksRanInOrder(float* x) {
  if (threadIdx.x == 0) x[blockIdx.x + 1] = x[blockIdx.x] + 1;
}

__global__ void TooMuchShared(float* x) {
  SHARED_ARRAY(float, s, 60 << 10);
  s[threadIdx.x] = x[threadIdx.x];
}

__global__ void NeverWaits(float*) {}

__global__ void ReadsBeforeItWaits(float* x) {
  const float before = x[threadIdx.x];
  WaitForPrevious();
  x[threadIdx.x] = before + 1;
}

__global__ void Doubles(float* x) { x[threadIdx.x] *= 2; }

__global__ void Adds(float* x, const float* y) { x[threadIdx.x] += y[threadIdx.x]; }

}  // namespace

cudaError_t LaunchFault(Fault fault, float* x, float* y, cudaStream_t s) {
  switch (fault) {
    case Fault::kNoBarrier:
      return Launch(NoBarrier, 1, 128, 0, s, x);
    case Fault::kNoSecondBarrier:
      return Launch(NoSecondBarrier, 1, 64, 0, s, x);
    case Fault::kReadsPast:
      return Launch(ReadsPast, 5, 32, 0, s, x, y, kFaultElements);
    case Fault::kWritesPastShared:
      return Launch(WritesPastShared, 1, 64, 256, s, x);
    case Fault::kHalfABarrier:
      return Launch(HalfABarrier, 1, 64, 0, s, x);
    case Fault::kTwoBarriers:
      return Launch(TwoBarriers, 1, 64, 0, s, x);
    case Fault::kInactiveLane:
      return Launch(InactiveLane, 1, 32, 0, s, x);
    case Fault::kLeavesEarly:
      return Launch(LeavesEarly, 1, 32, 0, s, x);
    case Fault::kLanesDisagree:
      return Launch(LanesDisagree, 1, 32, 0, s, x);
    case Fault::kReturnsBeforeABarrier:
      return Launch(ReturnsBeforeABarrier, 1, 32, 0, s, x);
    case Fault::kMisaligned:
      return Launch(Misaligned, 1, 16, 0, s, x);
    case Fault::kMisalignedCopy:
      return Launch(MisalignedCopy, 1, 1, 0, s, x, y);
    case Fault::kNoWait:
      return Launch(NoWait, 1, 32, 0, s, x, y);
    case Fault::kUninitialised:
      return Launch(Uninitialised, 1, 64, 0, s, y);
    case Fault::kNotAtomic:
      return Launch(NotAtomic, 1, 64, 0, s, x);
    case Fault::kAsIfBlocksRanInOrder:
      return Launch(AsIfBlocksRanInOrder, 8, 32, 0, s, x);
    case Fault::kTooMuchShared:
      return Launch(TooMuchShared, 1, 32, 0, s, x);
    case Fault::kNeverWaits:
      return LaunchEarly(NeverWaits, 1, 64, 0, s, x);
    case Fault::kReadsBeforeItWaits:
      LaunchDouble(x, s);
      return LaunchEarly(ReadsBeforeItWaits, 1, 64, 0, s, x);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchDouble(float* x, cudaStream_t s) { return Launch(Doubles, 1, 64, 0, s, x); }
cudaError_t LaunchAdd(float* x, const float* y, cudaStream_t s) { return Launch(Adds, 1, 64, 0, s, x, y); }

}  // namespace kinora::simt
