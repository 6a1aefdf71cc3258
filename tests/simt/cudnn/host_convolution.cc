// Computes one line of the result at a time: gathers the pixels under its taps as rows, then multiplies. Compiled with
// -O3 and without sanitizers.
#include "tests/simt/cudnn/host_convolution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/simt/host_gemm.h"

namespace kinora::simt {
namespace {

// Returns the position in x, or -1 in the padding.
int64_t Source(const ConvAxis& axis, int64_t extent, int64_t output, int64_t tap) {
  const int64_t at = output * axis.stride - axis.before + tap * axis.dilation;
  return at >= 0 && at < extent ? at : -1;
}

// rows: [columns of the result, taps · channels].
void Gather(const CudnnConvolution& c, const uint16_t* x, int64_t frame, int64_t line, int64_t columns,
            std::vector<uint16_t>& rows) {
  std::fill(rows.begin(), rows.end(), uint16_t{0});
  uint16_t* to = rows.data();
  for (int64_t column = 0; column < columns; ++column) {
    for (int t = 0; t < c.time.kernel; ++t) {
      for (int h = 0; h < c.height.kernel; ++h) {
        for (int w = 0; w < c.width.kernel; ++w, to += c.in_channels) {
          const int64_t st = Source(c.time, c.frames, frame, t), sh = Source(c.height, c.rows, line, h),
                        sw = Source(c.width, c.columns, column, w);
          if (st < 0 || sh < 0 || sw < 0) continue;
          std::memcpy(to, x + ((st * c.rows + sh) * c.columns + sw) * c.x_stride, c.in_channels * sizeof(uint16_t));
        }
      }
    }
  }
}

}  // namespace

int64_t OutputExtent(const ConvAxis& axis, int64_t extent) {
  return (extent + axis.before + axis.after - int64_t{axis.dilation} * (axis.kernel - 1) - 1) / axis.stride + 1;
}

void Convolve(const CudnnConvolution& c, absl::Span<void* const> operands) {
  const auto* const x = static_cast<const uint16_t*>(operands[0]);
  const bool narrow = c.out_dtype == DType::kBF16;
  const auto bias = [&](int64_t o) {
    return narrow ? FromBf16(static_cast<const uint16_t*>(operands[3])[o]) : static_cast<const float*>(operands[3])[o];
  };
  const bool activates = c.activation == Activation::kSilu, sum_first = c.accumulate && narrow && !activates;
  const int64_t frames = OutputExtent(c.time, c.frames), lines = OutputExtent(c.height, c.rows),
                columns = OutputExtent(c.width, c.columns);
  const int64_t depth = int64_t{1} * c.time.kernel * c.height.kernel * c.width.kernel * c.in_channels;
  std::vector<uint16_t> rows(columns * depth);
  std::vector<float> sums(columns * c.out_channels);
  for (int64_t at = 0; at < frames * lines; ++at) {
    Gather(c, x, at / lines, at % lines, columns, rows);
    HostGemm(columns, c.out_channels, depth, {.data = rows.data(), .bf16 = true, .row = depth},
             {.data = operands[1], .bf16 = true, .row = 1, .column = c.filter_stride}, sums.data(), c.out_channels);
    for (int64_t i = 0; i < columns * c.out_channels; ++i) {
      const int64_t o = i % c.out_channels, to = (at * columns + i / c.out_channels) * c.out_stride + o;
      auto* const bf16_out = static_cast<uint16_t*>(operands[2]) + to;
      auto* const f32_out = static_cast<float*>(operands[2]) + to;
      const float before = !c.accumulate ? 0.0f : narrow ? FromBf16(*bf16_out) : *f32_out;
      float v = sum_first ? sums[i] + before : sums[i];
      if (c.bias) v += bias(o);
      if (activates) v = v / (1.0f + std::exp(-v));
      if (!sum_first) v += before;
      if (narrow) {
        *bf16_out = ToBf16(v);
      } else {
        *f32_out = v;
      }
    }
  }
}

}  // namespace kinora::simt
