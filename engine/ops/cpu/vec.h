// Vectors of the instruction set this file is compiled for, through the compiler's vector extension.
// Included by the kernels_*.cc files only, inside their namespace's translation unit.
#ifndef KINORA_ENGINE_OPS_CPU_VEC_H_
#define KINORA_ENGINE_OPS_CPU_VEC_H_

#include <cstdint>

namespace kinora::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kTileRows = 12;  // 24 accumulators, 2 panel vectors and a broadcast in 32 registers
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kTileRows = 6;  // 12 accumulators in 16 registers
#else
constexpr int kLanes = 4;
constexpr int kTileRows = 6;
#endif
constexpr int kPanelColumns = 2 * kLanes;

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef int32_t IVec __attribute__((vector_size(kLanes * 4)));
typedef uint32_t UVec __attribute__((vector_size(kLanes * 4)));
typedef uint16_t HVec __attribute__((vector_size(kLanes * 2)));  // bf16 bits

inline Vec Load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline void Store(Vec v, float* p) { __builtin_memcpy(p, &v, sizeof(v)); }
inline Vec Splat(float x) { return x - Vec{}; }  // minus: 0 + x is no copy, it turns -0 into 0, and costs an addition
inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec Min(Vec a, Vec b) { return a < b ? a : b; }

inline float Sum(Vec v) {  // pairwise, one fixed order
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  return v[0];
}
inline float MaxLane(Vec v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
inline float MinLane(Vec v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = v[i] < m ? v[i] : m;
  return m;
}

inline float FromBf16(uint16_t h) {
  const uint32_t u = static_cast<uint32_t>(h) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
inline uint16_t ToBf16(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
inline Vec LoadBf16(const uint16_t* p) {
  HVec h;
  __builtin_memcpy(&h, p, sizeof(h));
  const UVec u = __builtin_convertvector(h, UVec) << 16;
  Vec v;
  __builtin_memcpy(&v, &u, sizeof(v));
  return v;
}
inline UVec RoundToBf16(Vec v) {  // bits of the nearest bf16, ties to even, in the low halves
  UVec u;
  __builtin_memcpy(&u, &v, sizeof(u));
  const UVec rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const UVec nan = (u >> 16) | 0x40u;
  return (u & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}
inline void StoreBf16(Vec v, uint16_t* p) {
  const HVec h = __builtin_convertvector(RoundToBf16(v), HVec);
  __builtin_memcpy(p, &h, sizeof(h));
}

// Lane by lane a bf16 pair: `low` in the low half.
inline UVec PackPairs(Vec low, Vec high) {
#if defined(__AVX512BF16__)
  const __m512i apart = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  const __m512i together = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                            21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return (UVec)_mm512_permutexvar_epi16(together, apart);
#else
  return RoundToBf16(low) | RoundToBf16(high) << 16;
#endif
}

// v[i][j] becomes v[j][i]: log2(kLanes) rounds, each exchanging blocks of Step between rows Step apart.
template <int... kLane>
struct Lanes {
  template <int Step>
  static UVec Low(UVec a, UVec b) {
    return __builtin_shufflevector(a, b, ((kLane & Step) == 0 ? kLane : kLane - Step + kLanes)...);
  }
  template <int Step>
  static UVec High(UVec a, UVec b) {
    return __builtin_shufflevector(a, b, ((kLane & Step) == 0 ? kLane + Step : kLane + kLanes)...);
  }
};
#if defined(__AVX512F__)
using AllLanes = Lanes<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
#elif defined(__AVX2__)
using AllLanes = Lanes<0, 1, 2, 3, 4, 5, 6, 7>;
#else
using AllLanes = Lanes<0, 1, 2, 3>;
#endif
template <int Step = kLanes / 2>
inline void Transpose(UVec (&v)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Step) != 0) continue;
    const UVec a = v[i], b = v[i + Step];
    v[i] = AllLanes::Low<Step>(a, b);
    v[i + Step] = AllLanes::High<Step>(a, b);
  }
  if constexpr (Step > 1) Transpose<Step / 2>(v);
}

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

#endif  // KINORA_ENGINE_OPS_CPU_VEC_H_
