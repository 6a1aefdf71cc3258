// Moves eight values at a time between memory and float32 registers: one access of 16 bytes in bf16, two in float32.
// Uses uint4 and float4, because a struct of eight bf16 is copied member by member (seen in the disassembly).
#ifndef KINORA_KERNELS_DEVICE_VECTOR_IO_H_
#define KINORA_KERNELS_DEVICE_VECTOR_IO_H_

#include "kernels/device/device.h"

namespace kinora::kernels {

constexpr int kVector = 8;

__device__ __forceinline__ void Load(const bf16* from, float (&f)[kVector]) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    f[2 * i] = __uint_as_float(words[i] << 16);
    f[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

__device__ __forceinline__ void Load(const float* from, float (&f)[kVector]) {
  const float4 a = reinterpret_cast<const float4*>(from)[0], b = reinterpret_cast<const float4*>(from)[1];
  f[0] = a.x, f[1] = a.y, f[2] = a.z, f[3] = a.w;
  f[4] = b.x, f[5] = b.y, f[6] = b.z, f[7] = b.w;
}

// Rounds each value once, to nearest even.
__device__ __forceinline__ unsigned PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned word;
  memcpy(&word, &pair, sizeof word);  // NOLINT(bugprone-undefined-memory-manipulation): two words, but for constructors
  return word;
}

__device__ __forceinline__ void Store(bf16* to, const float (&f)[kVector]) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(PackPair(f[0], f[1]), PackPair(f[2], f[3]), PackPair(f[4], f[5]), PackPair(f[6], f[7]));
}

__device__ __forceinline__ void Store(float* to, const float (&f)[kVector]) {
  reinterpret_cast<float4*>(to)[0] = make_float4(f[0], f[1], f[2], f[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(f[4], f[5], f[6], f[7]);
}

__device__ __forceinline__ float LoadOne(const bf16* from) { return __bfloat162float(*from); }
__device__ __forceinline__ float LoadOne(const float* from) { return *from; }
__device__ __forceinline__ void StoreOne(bf16* to, float value) { *to = __float2bfloat16_rn(value); }
__device__ __forceinline__ void StoreOne(float* to, float value) { *to = value; }

// Load and Store for single elements, so that one source also handles rows that do not consist of whole vectors.
template <typename T>
__device__ __forceinline__ void Load(const T* from, float (&f)[1]) {
  f[0] = LoadOne(from);
}
template <typename T>
__device__ __forceinline__ void Store(T* to, const float (&f)[1]) {
  StoreOne(to, f[0]);
}

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_DEVICE_VECTOR_IO_H_
