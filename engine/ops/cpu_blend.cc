// The CPU backend's ops for pictures. Compiled without fused multiply-adds, so that other backends can produce the same
// bits.
#include <algorithm>
#include <atomic>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/op_checks.h"

namespace kinora {
namespace {

// sum += pixels times the three weights, in the order time, height, width.
void AddRow(const float* pixels, float frame, float row, const float* columns, int64_t count, float* sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += pixels[i] * frame * row * columns[i];
}

void DivideRow(float* values, float row, const float* columns, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] /= std::max(row * columns[i], 1e-8f);
}

// Converts sums to 0..1, in place, and to bytes. Returns false if there is a NaN.
bool FinishRow(float* values, int64_t count, uint8_t* rgb8) {
  int not_a_number = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float v = (values[i] + 1.0f) * 0.5f;
    not_a_number |= static_cast<int>(v != v);
    values[i] = v > 0.0f ? std::min(v, 1.0f) : 0.0f;
    rgb8[i] = static_cast<uint8_t>(static_cast<int>(values[i] * 255.0f));
  }
  return not_a_number == 0;
}

// Finishes row i, counted over all frames. Returns false if there is a NaN.
bool FinishLine(const Tensor& sums, const Rgb8Options& options, int64_t i, uint8_t* rgb8) {
  constexpr int64_t kPiece = 256;  // values that stay in L1
  float values[kPiece];
  const PixelWeights& weights = options.weights;
  const int64_t height = sums.dim(1), line = sums.dim(2) * sums.dim(3);
  bool good = true;
  for (int64_t at = 0; at < line; at += kPiece) {
    const int64_t count = std::min(kPiece, line - at);
    std::copy_n(sums.data<float>() + i * line + at, count, values);
    if (weights.frames.defined()) {
      const float row = weights.frames.data<float>()[i / height] * weights.rows.data<float>()[i % height];
      DivideRow(values, row, weights.columns.data<float>() + at, count);
    }
    good &= FinishRow(values, count, rgb8 + i * line + at);
    if (options.rgb.defined()) std::copy_n(values, count, options.rgb.data<float>() + i * line + at);
  }
  return good;
}

}  // namespace

void CpuOps::AddTile(const Tensor& tile, const TileBlend& blend, Tensor sums) {
  CheckAddTile(tile, blend, sums);
  stream_.Enqueue([this, tile, blend, sums] {
    const int64_t height = tile.dim(1), line = tile.dim(2) * tile.dim(3), sums_line = sums.dim(2) * sums.dim(3);
    const float *frames = blend.weights.frames.data<float>(), *rows = blend.weights.rows.data<float>();
    float* const first = sums.data<float>() + blend.row * sums_line + blend.column * sums.dim(3);
    ForRows(tile.dim(0) * height, line * 12, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t f = i / height, y = i % height;
        AddRow(tile.data<float>() + i * line, frames[f], rows[y], blend.weights.columns.data<float>(), line,
               first + (f * sums.dim(1) + y) * sums_line);
      }
    });
  });
}

void CpuOps::FinishRgb8(const Tensor& sums, const Rgb8Options& options, Tensor rgb8) {
  CheckFinishRgb8(sums, options, rgb8);
  stream_.Enqueue([this, sums, options, rgb8] {
    const int64_t height = sums.dim(1), line = sums.dim(2) * sums.dim(3);
    std::atomic<int32_t> bad = *options.first_bad.data<int32_t>();
    ForRows(sums.dim(0) * height, line * 5, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (FinishLine(sums, options, i, rgb8.data<uint8_t>())) continue;
        const int32_t frame = options.first_frame + static_cast<int32_t>(i / height);
        for (int32_t known = bad; frame < known && !bad.compare_exchange_weak(known, frame);) {
        }
      }
    });
    *options.first_bad.data<int32_t>() = bad;
  });
}

}  // namespace kinora
