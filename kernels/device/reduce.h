// Sums and maxima over a warp and over a block, in one fixed order.
#ifndef KINORA_KERNELS_DEVICE_REDUCE_H_
#define KINORA_KERNELS_DEVICE_REDUCE_H_

#include "kernels/device/device.h"

namespace kinora::kernels {

template <typename T>
__device__ __forceinline__ T WarpSum(T v) {
#pragma unroll
  for (int step = kWarpLanes / 2; step > 0; step >>= 1) v += __shfl_xor_sync(kFullWarp, v, step);
  return v;
}

// The same over groups of kLanes neighbouring threads, a power of two; all lanes of the warp take part.
template <int kLanes>
__device__ __forceinline__ float GroupSum(float v) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step >>= 1) v += __shfl_xor_sync(kFullWarp, v, step);
  return v;
}
template <int kLanes>
__device__ __forceinline__ float GroupMax(float v) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step >>= 1) v = fmaxf(v, __shfl_xor_sync(kFullWarp, v, step));
  return v;
}

__device__ __forceinline__ float WarpMax(float v) {
#pragma unroll
  for (int step = kWarpLanes / 2; step > 0; step >>= 1) v = fmaxf(v, __shfl_xor_sync(kFullWarp, v, step));
  return v;
}

// Returns the sum over all threads of a block of whole warps to every thread. kUse: calls in a kernel that no barrier
// separates need different numbers, so that they do not share memory.
template <int kUse = 0, typename T>
__device__ __forceinline__ T BlockSum(T v) {
  SHARED_ARRAY(T, partial, kWarpLanes);
  const int warp = threadIdx.x / kWarpLanes, lane = threadIdx.x % kWarpLanes;
  v = WarpSum(v);
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  return WarpSum(lane < static_cast<int>(blockDim.x) / kWarpLanes ? partial[lane] : T{});
}

// Returns the maximum, in the same way as BlockSum.
template <int kUse = 0>
__device__ __forceinline__ float BlockMax(float v) {
  SHARED_ARRAY(float, partial, kWarpLanes);
  const int warp = threadIdx.x / kWarpLanes, lane = threadIdx.x % kWarpLanes;
  v = WarpMax(v);
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  return WarpMax(partial[lane < static_cast<int>(blockDim.x) / kWarpLanes ? lane : 0]);
}

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_DEVICE_REDUCE_H_
