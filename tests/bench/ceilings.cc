#include "tests/bench/ceilings.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/base/cpu_path.h"
#include "tests/bench/measure.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kinora {
namespace {

constexpr int kChains = 16;  // independent sums; more than latency times issue width on current cores
constexpr int kRuns = 7;

volatile float sink;  // prevents removal of the loops

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double RunAvx512(long iterations) {
  __m512 sums[kChains], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0f);
  for (long i = 0; i < iterations; ++i) {
    for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, x, y);
  }
  for (auto& sum : sums) sink = sum[0] + sum[15];
  return 2.0 * 16 * kChains;
}

__attribute__((target("avx512f,avx512bf16"))) double RunBf16(long iterations) {
  __m512 sums[kChains];
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3c003c00), y = (__m512bh)_mm512_set1_epi32(0x3c003c00);
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0f);
  for (long i = 0; i < iterations; ++i) {
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, x, y);
  }
  for (auto& sum : sums) sink = sum[0] + sum[15];
  return 4.0 * 16 * kChains;
}

// Uses tile registers of 16 rows of 64 bytes. Four chains cover an instruction's latency.
__attribute__((target("amx-tile,amx-bf16"))) double RunAmx(long iterations) {
  struct alignas(64) {
    uint8_t palette = 1, rest[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shape;
  asm volatile("" ::"r"(&shape) : "memory");
  _tile_loadconfig(&shape);
  for (long i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4 * 2.0 * 16 * 16 * 32;
}

__attribute__((target("avx2,fma"))) double RunAvx2(long iterations) {
  __m256 sums[kChains / 2], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0f);
  for (long i = 0; i < iterations; ++i) {
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, x, y);
  }
  for (auto& sum : sums) sink = sum[0] + sum[7];
  return 8.0 * kChains;  // two for each of eight lanes, in half of the chains
}
#endif

double RunScalar(long iterations) {
  float sums[kChains];
  std::fill_n(sums, kChains, 1.0f);
  for (long i = 0; i < iterations; ++i) {
    for (float& sum : sums) sum = sum * 0.999f + 1e-3f;
  }
  for (float sum : sums) sink = sum;
  return 2.0 * kChains;
}

// run(iterations) must return the FLOPs per iteration.
double BestRate(double (*run)(long)) {
  constexpr long kIterations = 2'000'000;
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    double flops = 0;
    const Times times = Measure([&] { flops = run(kIterations) * kIterations; });
    best = std::max(best, flops / times.processor);
  }
  return best;
}

double BestCopyRate() {
  constexpr size_t kBytes = size_t{256} << 20;  // far larger than any cache
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    const Times times = Measure([&] { std::memcpy(to.data(), from.data(), kBytes); });
    sink = to[kBytes / 2];
    best = std::max(best, 2.0 * kBytes / times.wall);
  }
  return best;
}

}  // namespace

Ceilings MeasureCeilings() {
  Ceilings ceilings{.f32_flops = 0, .bf16_flops = 0, .copy_bytes = BestCopyRate()};
#if defined(__x86_64__)
  switch (ThisCpuPath()) {
    case CpuPath::kAmxBf16:
    case CpuPath::kAvx512Bf16:
      ceilings.f32_flops = BestRate(RunAvx512);
      ceilings.bf16_flops = BestRate(ThisCpuPath() == CpuPath::kAmxBf16 ? RunAmx : RunBf16);
      return ceilings;
    case CpuPath::kAvx2:
      ceilings.f32_flops = BestRate(RunAvx2);
      return ceilings;
    case CpuPath::kBaseline:
      break;
  }
#endif
  ceilings.f32_flops = BestRate(RunScalar);
  return ceilings;
}

}  // namespace kinora
