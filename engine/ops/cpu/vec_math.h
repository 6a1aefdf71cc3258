// Exponentials and activations of vectors, by polynomials. Included only where vec.h is.
#ifndef KINORA_ENGINE_OPS_CPU_VEC_MATH_H_
#define KINORA_ENGINE_OPS_CPU_VEC_MATH_H_

#include "engine/ops/cpu/vec.h"

namespace kinora::cpu {
namespace {

// e^x to 2 ulp for x in [-87, 88]; 0 below, saturated above.
inline Vec Exp(Vec x) {
  const Vec clamped = Min(Max(x, Splat(-87.3f)), Splat(88.3f));
  const Vec magic = Splat(12582912.0f);  // 1.5·2^23: adding it rounds to an integer
  const Vec n = (clamped * 1.44269504088896341f + magic) - magic;
  Vec r = clamped - n * 0.693359375f;  // ln 2 in two parts, the first exact in few bits
  r = r - n * -2.12194440e-4f;
  Vec p = Splat(1.9875691500e-4f);  // Cephes expf
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const IVec exponent = (__builtin_convertvector(n, IVec) + 127) << 23;
  Vec scale;
  __builtin_memcpy(&scale, &exponent, sizeof(scale));
  return x < Splat(-87.3f) ? Splat(0.0f) : p * scale;
}
// 2^x to 2e-7 for x in [-126, 127]; 0 from -150 down.
inline Vec Exp2(Vec x) {
  x = Max(x, Splat(-150.0f));
#if defined(__AVX512BF16__)
  const Vec r = (Vec)_mm512_reduce_ps((__m512)x, 0x09);  // x - floor(x)
#else
  const Vec magic = Splat(12582912.0f);
  const Vec nearest = (x + magic) - magic;
  const Vec n = nearest > x ? nearest - 1.0f : nearest;
  const Vec r = x - n;
#endif
  Vec p = Splat(1.86713005e-3f);  // minimax on [0, 1) with p(0) = 1
  p = p * r + 9.01703071e-3f;
  p = p * r + 5.57999127e-2f;
  p = p * r + 2.40164444e-1f;
  p = p * r + 6.93151295e-1f;
  p = p * r + 1.0f;
#if defined(__AVX512BF16__)
  return (Vec)_mm512_maskz_scalef_ps(0xffff, (__m512)p,
                                     (__m512)x);  // p·2^floor(x); unmasked, GCC 12 warns in its own header
#else
  const IVec exponent = (__builtin_convertvector(n, IVec) + 127) << 23;
  Vec scale;
  __builtin_memcpy(&scale, &exponent, sizeof(scale));
  return n < -126.0f ? Splat(0.0f) : p * scale;
#endif
}
inline Vec Sigmoid(Vec x) { return 1.0f / (1.0f + Exp(-x)); }
inline Vec Silu(Vec x) { return x * Sigmoid(x); }
inline Vec GeluTanh(Vec x) {  // 0.5·x·(1 + tanh u) = x·sigmoid(2u)
  return x * Sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
}

}  // namespace
}  // namespace kinora::cpu

#endif  // KINORA_ENGINE_OPS_CPU_VEC_MATH_H_
