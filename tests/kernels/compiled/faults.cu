// Kernels with one error each that only the compiler's output shows. faults.txt has their budgets, faults.expected the
// expected messages.
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"

namespace kinora::kernels {

struct alignas(16) Eight {
  __nv_bfloat162 pairs[4];
};

// A struct of eight bf16 is copied member by member.
__global__ void CopiesMembers(const Eight* from, Eight* to) { to[threadIdx.x] = from[threadIdx.x]; }

// Uses more values than the registers available to six blocks of 256 threads.
__global__ void __launch_bounds__(256, 6) Spills(const float* from, float* to) {
  float kept[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) kept[i] = from[i * 256 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) to[(63 - i) * 256 + threadIdx.x] = kept[i];
}

// 40 KiB of shared memory allow only five blocks.
__global__ void TakesSharedMemory(const uint4* from, uint4* to) {
  SHARED_ARRAY(uint4, kept, 2560);
  for (int i = threadIdx.x; i < 2560; i += 256) kept[i] = from[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 2560; i += 256) to[i] = kept[2559 - i];
}

__global__ void HasNoBudget(uint4* to) { to[threadIdx.x] = make_uint4(0, 0, 0, 0); }

__global__ void IsRight(const uint4* from, uint4* to) { to[threadIdx.x] = from[threadIdx.x]; }

}  // namespace kinora::kernels
