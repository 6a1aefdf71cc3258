// Activations in float32, by the accurate functions. The fast functions' errors are relative to 1, even for small
// values.
#ifndef KINORA_KERNELS_DEVICE_ACTIVATIONS_H_
#define KINORA_KERNELS_DEVICE_ACTIVATIONS_H_

#include "kernels/device/device.h"

namespace kinora::kernels {

__device__ __forceinline__ float Sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

__device__ __forceinline__ float Silu(float v) { return v / (1.0f + expf(-v)); }

__device__ __forceinline__ float GeluTanh(float v) {
  const float inner = 0.7978845608028654f * (v + 0.044715f * v * v * v);
  return 0.5f * v * (1.0f + tanhf(inner));
}

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_DEVICE_ACTIVATIONS_H_
