// Ops that reduce blocks of pixels to one: SpaceToDepth puts their channels side by side, Blur filters with a stride.
#include <algorithm>
#include <utility>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_checks.h"

namespace kinora {
namespace {

// Maps a part of the block of output position `i` to a row of x.
class Blocks {
 public:
  Blocks(const Tensor& x, const SpaceToDepthOptions& options, const Tensor& out)
      : x_(x), out_(out), factor_(options.factor), options_(options) {}

  int64_t Row(int64_t i, int64_t part) const {
    const int64_t width = i % out_.dim(2), height = i / out_.dim(2) % out_.dim(1),
                  frame = i / out_.dim(2) / out_.dim(1);
    const int64_t inner = options_.width_before_height ? factor_.height : factor_.width;
    int64_t h = part / inner % (factor_.height * factor_.width / inner), w = part % inner;
    if (options_.width_before_height) std::swap(h, w);
    const int64_t t = frame * factor_.time + part / (factor_.height * factor_.width) - (options_.repeat_first ? 1 : 0);
    return (std::max<int64_t>(0, t) * x_.dim(1) + height * factor_.height + h) * x_.dim(2) + width * factor_.width + w;
  }

 private:
  const Tensor& x_;
  const Tensor& out_;
  const SpaceTime factor_;
  const SpaceToDepthOptions& options_;
};

// sums[k / mean_of] += x[c] for k = c · parts + part.
void AddPart(const float* x, int64_t channels, int64_t part, int64_t parts, int64_t mean_of, float* sums) {
  if (mean_of == 1) {
    for (int64_t c = 0; c < channels; ++c) sums[c * parts + part] += x[c];
  } else {
    for (int64_t c = 0; c < channels; ++c) sums[(c * parts + part) / mean_of] += x[c];
  }
}

}  // namespace

void CpuOps::SpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, Tensor out) {
  CheckSpaceToDepth(x, options, out);
  stream_.Enqueue([this, x, options, out] {
    constexpr int64_t kPositionsATask = 16;
    const int64_t positions = out.rows(), parts = options.factor.product(), width = out.width();
    const Blocks blocks(x, options, out);
    const float share = 1.0f / static_cast<float>(options.mean_of);
    const auto last = options.accumulate == Accumulate::kAdd ? cpu::Elementwise::kAdd : cpu::Elementwise::kCopy;
    pool_.Run((positions + kPositionsATask - 1) / kPositionsATask, [&](int64_t task, int thread) {
      auto* const sums = static_cast<float*>(workspace_[thread].data());
      float* const pixel = sums + cpu::kMaxRowWidth;
      const int64_t end = std::min(positions, (task + 1) * kPositionsATask);
      for (int64_t i = task * kPositionsATask; i < end; ++i) {
        std::fill_n(sums, width, 0.0f);
        for (int64_t part = 0; part < parts; ++part) {
          kernels_.elementwise({.op = cpu::Elementwise::kCopy,
                                .a = {At(x, blocks.Row(i, part)), 0, KernelType(x.dtype())},
                                .out = {pixel, 0, cpu::kFloat32},
                                .width = x.width()},
                               0, 1);
          AddPart(pixel, x.width(), part, parts, options.mean_of, sums);
        }
        for (int64_t c = 0; c < width && options.mean_of > 1; ++c) sums[c] *= share;
        const cpu::RowsView to{At(out, i), 0, KernelType(out.dtype())};
        kernels_.elementwise({.op = last, .a = {sums, 0, cpu::kFloat32}, .b = to, .out = to, .width = width}, 0, 1);
      }
    });
  });
}

void CpuOps::Blur(const Tensor& x, const Tensor& filter, int stride, Tensor out) {
  CheckBlur(x, filter, stride, out);
  stream_.Enqueue([this, x, filter, stride, out] {
    const int64_t taps = filter.dim(0), width = x.dim(3);
    pool_.Run(out.dim(0) * out.dim(1), [&](int64_t line, int thread) {
      auto* const sums = static_cast<float*>(workspace_[thread].data());
      auto* const pixel = sums + width;
      const int64_t frame = line / out.dim(1), height = line % out.dim(1);
      for (int64_t column = 0; column < out.dim(2); ++column) {
        std::fill_n(sums, width, 0.0f);
        for (int64_t tap = 0; tap < taps * taps; ++tap) {
          const int64_t sh = height * stride - taps / 2 + tap / taps, sw = column * stride - taps / 2 + tap % taps;
          if (sh < 0 || sh >= x.dim(1) || sw < 0 || sw >= x.dim(2)) continue;
          const int64_t from = (frame * x.dim(1) + sh) * x.dim(2) + sw;
          kernels_.elementwise({.op = cpu::Elementwise::kCopy,
                                .a = {At(x, from), 0, KernelType(x.dtype())},
                                .out = {pixel, 0, cpu::kFloat32},
                                .width = width},
                               0, 1);
          const float factor = filter.data<float>()[tap];
          for (int64_t c = 0; c < width; ++c) sums[c] += factor * pixel[c];
        }
        const cpu::RowsView to{At(out, line * out.dim(2) + column), 0, KernelType(out.dtype())};
        kernels_.elementwise({.op = cpu::Elementwise::kCopy, .a = {sums, 0, cpu::kFloat32}, .out = to, .width = width},
                             0, 1);
      }
    });
  });
}

}  // namespace kinora
