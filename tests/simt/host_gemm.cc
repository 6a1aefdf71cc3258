// Packed panels and a register tile (Goto & van de Geijn, "Anatomy of high-performance matrix multiplication"), for the
// machine's instruction set.
#include "tests/simt/host_gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace kinora::simt {
namespace {

constexpr int64_t kDepth = 256, kColumns = 1024, kRows = 96;  // block sizes

// A tile adds `rows` x `columns` products of two packed panels to the existing sums.
struct Tile {
  int64_t rows, columns;
  void (*add)(const float* a, const float* b, int64_t depth, float* sums, int64_t stride);
};

using Vector8 = float __attribute__((vector_size(32), aligned(4)));
using Vector16 = float __attribute__((vector_size(64), aligned(4)));

// A macro, because vector types are lowered for the target of the function in which they appear.
#define KINORA_TILE(name, isa, Vector, kTileRows)                                             \
  isa void name(const float* a, const float* b, int64_t depth, float* sums, int64_t stride) { \
    constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);                                \
    Vector total[kTileRows][2];                                                               \
    _Pragma("GCC unroll 16") for (int i = 0; i < (kTileRows); ++i) {                          \
      std::memcpy(&total[i][0], sums + i * stride, sizeof(Vector));                           \
      std::memcpy(&total[i][1], sums + i * stride + kLanes, sizeof(Vector));                  \
    }                                                                                         \
    for (int64_t p = 0; p < depth; ++p, a += (kTileRows), b += 2 * kLanes) {                  \
      Vector left, right;                                                                     \
      std::memcpy(&left, b, sizeof(Vector));                                                  \
      std::memcpy(&right, b + kLanes, sizeof(Vector));                                        \
      _Pragma("GCC unroll 16") for (int i = 0; i < (kTileRows); ++i) {                        \
        total[i][0] += a[i] * left;                                                           \
        total[i][1] += a[i] * right;                                                          \
      }                                                                                       \
    }                                                                                         \
    _Pragma("GCC unroll 16") for (int i = 0; i < (kTileRows); ++i) {                          \
      std::memcpy(sums + i * stride, &total[i][0], sizeof(Vector));                           \
      std::memcpy(sums + i * stride + kLanes, &total[i][1], sizeof(Vector));                  \
    }                                                                                         \
  }

KINORA_TILE(AddAvx512, __attribute__((target("avx512f,avx512vl,avx2,fma"))), Vector16, 12)
KINORA_TILE(AddAvx2, __attribute__((target("avx2,fma"))), Vector8, 6)
KINORA_TILE(AddAnywhere, , Vector8, 2)
#undef KINORA_TILE

Tile Select() {
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0) return {12, 32, AddAvx512};
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) return {6, 16, AddAvx2};
  return {2, 16, AddAnywhere};
}

float At(const HostMatrix& m, int64_t i) {
  return m.bf16 ? FromBf16(static_cast<const uint16_t*>(m.data)[i]) : static_cast<const float*>(m.data)[i];
}

// Packs `count` items from `first` on in panels of `width`, depth by depth, padded with zeros. `item` and `step` are
// the distances between items and along the depth.
void Pack(const HostMatrix& m, int64_t item, int64_t step, int64_t first, int64_t count, int64_t k, int64_t depth,
          int64_t width, float* to) {
  for (int64_t panel = 0; panel < count; panel += width, to += width * depth) {
    const int64_t items = std::min(width, count - panel);
    std::fill_n(to, items < width ? width * depth : 0, 0.0f);
    const int64_t start = (first + panel) * item + k * step;
    if (step == 1) {
      for (int64_t i = 0; i < items; ++i) {
        for (int64_t p = 0; p < depth; ++p) to[p * width + i] = At(m, start + i * item + p);
      }
    } else {
      for (int64_t p = 0; p < depth; ++p) {
        for (int64_t i = 0; i < items; ++i) to[p * width + i] = At(m, start + i * item + p * step);
      }
    }
  }
}

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Multiplies packed blocks into rows x columns of sums.
void MultiplyBlock(const Tile& tile, const float* a, const float* b, int64_t rows, int64_t columns, int64_t depth,
                   float* sums, int64_t stride) {
  float edge[12 * 32];
  for (int64_t j = 0; j < columns; j += tile.columns) {
    for (int64_t i = 0; i < rows; i += tile.rows) {
      float* const to = sums + i * stride + j;
      const float *const left = a + i * depth, *const right = b + j * depth;
      const int64_t height = std::min(tile.rows, rows - i), width = std::min(tile.columns, columns - j);
      if (height == tile.rows && width == tile.columns) {
        tile.add(left, right, depth, to, stride);
        continue;
      }
      std::fill(std::begin(edge), std::end(edge), 0.0f);
      for (int64_t r = 0; r < height; ++r) std::copy_n(to + r * stride, width, edge + r * tile.columns);
      tile.add(left, right, depth, edge, tile.columns);
      for (int64_t r = 0; r < height; ++r) std::copy_n(edge + r * tile.columns, width, to + r * stride);
    }
  }
}

}  // namespace

void HostGemm(int64_t m, int64_t n, int64_t k, const HostMatrix& a, const HostMatrix& b, float* sums, int64_t stride) {
  static const Tile tile = Select();
  for (int64_t i = 0; i < m; ++i) std::fill_n(sums + i * stride, n, 0.0f);
  std::vector<float> left(RoundUp(std::min(m, kRows), tile.rows) * kDepth);
  std::vector<float> right(RoundUp(std::min(n, kColumns), tile.columns) * kDepth);
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t columns = std::min(kColumns, n - j);
    for (int64_t p = 0; p < k; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      Pack(b, b.column, b.row, j, columns, p, depth, tile.columns, right.data());
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        Pack(a, a.row, a.column, i, rows, p, depth, tile.rows, left.data());
        MultiplyBlock(tile, left.data(), right.data(), rows, columns, depth, sums + i * stride + j, stride);
      }
    }
  }
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kinora::simt
