// The CPU backend's ops for sound.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/op_checks.h"

namespace kinora {

static_assert(kMaxSnakeTaps == cpu::kMaxSnakeTaps);

void CpuOps::RepeatNearest(const Tensor& x, const SpaceTime& factor, Tensor out) {
  CheckRepeatNearest(x, factor, out);
  stream_.Enqueue([this, x, factor, out] {
    const int64_t pixel = x.width() * DTypeSize(x.dtype()), line = out.dim(2) * pixel;
    ForRows(out.dim(0) * out.dim(1), line, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t frame = row / out.dim(1) / factor.time, y = row % out.dim(1) / factor.height;
        const char* from = At(x, (frame * x.dim(1) + y) * x.dim(2));
        char* to = static_cast<char*>(out.raw()) + row * line;
        for (int64_t i = 0; i < out.dim(2); ++i) std::memcpy(to + i * pixel, from + i / factor.width * pixel, pixel);
      }
    });
  });
}

void CpuOps::Pointwise(const Tensor& x, const PointwiseFunction& f, Tensor out) {
  CheckPointwise(x, out);
  stream_.Enqueue([this, x, f, out] {
    const auto call = [&](int64_t begin, int64_t end, auto function) {  // per element, through the C library
      for (int64_t row = begin; row < end; ++row) {
        const float* in = reinterpret_cast<const float*>(At(x, row));
        float* to = reinterpret_cast<float*>(At(out, row));
        for (int64_t i = 0; i < x.width(); ++i) to[i] = function(in[i]);
      }
    };
    ForRows(x.rows(), x.width() * 8, [&](int64_t begin, int64_t end) {
      switch (f.kind) {
        case PointwiseFunction::kTanh:
          return call(begin, end, [](float v) { return std::tanh(v); });
        case PointwiseFunction::kLogFloor:
          return call(begin, end, [&f](float v) { return std::log(v < f.a ? f.a : v); });  // a NaN stays NaN
        case PointwiseFunction::kLeakyRelu:
          return kernels_.pointwise(View(x), View(out), x.width(), cpu::Curve::kLeakyRelu, f.a, f.b, begin, end);
        case PointwiseFunction::kClamp:
          return kernels_.pointwise(View(x), View(out), x.width(), cpu::Curve::kClamp, f.a, f.b, begin, end);
      }
    });
  });
}

void CpuOps::Snake(const Tensor& x, const AntiAliasedSnake& snake, Tensor out) {
  CheckSnake(x, snake, out);
  const cpu::SnakeArgs args{.x = x.data<float>(),
                            .out = out.data<float>(),
                            .rows = x.rows(),
                            .width = x.width(),
                            .frequency = snake.frequency.data<float>(),
                            .amplitude = snake.amplitude.data<float>(),
                            .up = snake.up.data<float>(),
                            .down = snake.down.data<float>(),
                            .up_taps = static_cast<int>(snake.up.elements()),
                            .down_taps = static_cast<int>(snake.down.elements())};
  stream_.Enqueue([this, args] {
    constexpr int64_t kRowsATask = 256;  // long compared with the filters, whose rows neighbouring tasks double again
    pool_.Run((args.rows + kRowsATask - 1) / kRowsATask, [&](int64_t task, int) {
      kernels_.snake(args, task * kRowsATask, std::min(args.rows, (task + 1) * kRowsATask));
    });
  });
}

void CpuOps::Magnitude(const Tensor& x, Tensor out) {
  CheckMagnitude(x, out);
  stream_.Enqueue([this, x, out] {
    const int64_t n = out.width();
    ForRows(x.rows(), x.width() * 6, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* real = reinterpret_cast<const float*>(At(x, row));
        const float* imaginary = real + n;
        float* to = reinterpret_cast<float*>(At(out, row));
        for (int64_t i = 0; i < n; ++i) to[i] = std::sqrt(real[i] * real[i] + imaginary[i] * imaginary[i]);
      }
    });
  });
}

}  // namespace kinora
