// Vectors of the instruction set this file is compiled for, through the compiler's vector extension.
// Included only by kernels_isa.cc, which is compiled once per instruction set.
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
inline Vec Splat(float x) { return x - Vec{}; }  // minus: 0 + x would turn -0 into 0, and so cost an addition
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

// Packs a bf16 pair per lane, with `low` in the low half.
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

}  // namespace
}  // namespace kinora::cpu

#endif  // KINORA_ENGINE_OPS_CPU_VEC_H_
