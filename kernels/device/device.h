// The device API that kernels use. With nvcc it is CUDA; with a host compiler it is the simulated device, which runs
// the same source thread by thread. A kernel never tests which compiler is used: everything that differs has one name
// with two definitions, here and in ptx.h.
//
// The rules for kernels are in kernels/README.md; tests/house/kernel_rules_test.cc checks them.
#ifndef KINORA_KERNELS_DEVICE_DEVICE_H_
#define KINORA_KERNELS_DEVICE_DEVICE_H_

#include "kernels/early_launch.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

#include "kernels/device/ptx.h"

// An array in shared memory.
#define SHARED_ARRAY(T, name, n) __shared__ T name[n]

// The dynamic part of a block's shared memory, of the size passed to Launch.
template <typename T>
__device__ __forceinline__ T* DynamicShared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  return reinterpret_cast<T*>(dynamic_shared);
}

// Starts a kernel, for Launch and LaunchEarly below. Requests more than 48 KB of dynamic shared memory from the device
// first.
template <typename... P, typename... A>
cudaError_t LaunchWith(cudaLaunchConfig_t config, void (*kernel)(P...), A&&... arguments) {
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments are plain values");
  constexpr size_t kGranted = 48 << 10;
  if (config.dynamicSmemBytes > kGranted) {
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(config.dynamicSmemBytes));
    if (error != cudaSuccess) return error;
  }
  return cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
}

inline cudaLaunchConfig_t ConfigOf(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  return config;
}

template <typename... P, typename... A>
cudaError_t Launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A&&... arguments) {
  return LaunchWith(ConfigOf(grid, block, shared, stream), kernel, static_cast<A&&>(arguments)...);
}

inline bool CanLaunchEarly() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

// For kernels of a few microseconds: the device sets the kernel up while the previous one still runs (programmatic
// dependent launch), which removes the gap between them. The kernel must begin with WaitForPrevious().
template <typename... P, typename... A>
cudaError_t LaunchEarly(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                        A&&... arguments) {
  static const bool can = CanLaunchEarly();
  cudaLaunchConfig_t config = ConfigOf(grid, block, shared, stream);
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = can && kinora::kernels::early_launch_allowed ? 1 : 0;
  return LaunchWith(config, kernel, static_cast<A&&>(arguments)...);
}

#else
#include "tests/simt/simt.h"
#endif

namespace kinora::kernels {

using bf16 = __nv_bfloat16;
constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarpLanes = 32;

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_DEVICE_DEVICE_H_
