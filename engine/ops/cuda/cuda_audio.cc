// The CUDA backend's ops for sound.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/snake.h"
#include "kernels/sound.h"

namespace kinora {

static_assert(kMaxSnakeTaps == kernels::kMaxSnakeTaps);

namespace {

kernels::Curve KernelCurve(PointwiseFunction::Kind kind) {
  switch (kind) {
    case PointwiseFunction::kLeakyRelu:
      return kernels::Curve::kLeakyRelu;
    case PointwiseFunction::kTanh:
      return kernels::Curve::kTanh;
    case PointwiseFunction::kClamp:
      return kernels::Curve::kClamp;
    case PointwiseFunction::kLogFloor:
      return kernels::Curve::kLogFloor;
  }
  KINORA_CHECK(false) << static_cast<int>(kind);
  return kernels::Curve::kTanh;
}

}  // namespace

void CudaOps::Pointwise(const Tensor& x, const PointwiseFunction& f, Tensor out) {
  CheckPointwise(x, out);
  if (x.elements() == 0) return;
  stream_->Enqueue("Pointwise", x, [&](cudaStream_t stream) {
    return kernels::LaunchPointwise({.rows = x.rows(),
                                     .width = x.width(),
                                     .x = View(x),
                                     .out = View(out),
                                     .curve = KernelCurve(f.kind),
                                     .a = f.a,
                                     .b = f.b},
                                    stream);
  });
}

namespace {

kernels::Snake KernelSnake(const Tensor& x, const AntiAliasedSnake& snake, const Tensor& out) {
  return {.x = x.data<float>(),
          .out = out.data<float>(),
          .rows = x.rows(),
          .width = x.width(),
          .frequency = snake.frequency.data<float>(),
          .amplitude = snake.amplitude.data<float>(),
          .up = snake.up.data<float>(),
          .down = snake.down.data<float>(),
          .up_taps = static_cast<int>(snake.up.elements()),
          .down_taps = static_cast<int>(snake.down.elements())};
}

}  // namespace

void CudaOps::Snake(const Tensor& x, const AntiAliasedSnake& snake, Tensor out) {
  CheckSnake(x, snake, out);
  if (x.elements() == 0) return;
  stream_->Enqueue("Snake", x,
                   [&](cudaStream_t stream) { return kernels::LaunchSnake(KernelSnake(x, snake, out), stream); });
}

// The snake kernel writes its result directly where the convolution's taps read it.
void CudaOps::SnakeThenConv(const Tensor& x, const AntiAliasedSnake& snake, const Weight& w, const ConvAxis& time,
                            Accumulate accumulate, Tensor bent, Tensor out) {
  const bool gathers =
      w.dtype() == DType::kF32 && time.kernel > 1 && time.stride == 1 && time.padding == Padding::kZeros;
  if (!gathers || x.elements() == 0) return Ops::SnakeThenConv(x, snake, w, time, accumulate, bent, out);
  CheckSnake(x, snake, bent);
  const auto pixels = [](const Tensor& t) { return t.Reshape({1, t.dim(0), 1, t.dim(1)}); };
  CheckConv(pixels(bent), w, {.height = time, .accumulate = accumulate}, pixels(out));
  stream_->Enqueue("SnakeThenConv", x, [&](cudaStream_t stream) {
    const auto fill = [&](int64_t first, const Tensor& columns) {
      return kernels::LaunchSnakeUnderTaps(KernelSnake(x, snake, columns),
                                           {.taps = time.kernel,
                                            .dilation = time.dilation,
                                            .before = time.before,
                                            .first = first,
                                            .count = columns.rows(),
                                            .row_stride = columns.row_stride()},
                                           stream);
    };
    return MultiplyColumns(w, {.accumulate = accumulate}, fill, out);
  });
}

void CudaOps::Magnitude(const Tensor& x, Tensor out) {
  CheckMagnitude(x, out);
  if (out.elements() == 0) return;
  stream_->Enqueue("Magnitude", x, [&](cudaStream_t stream) {
    return kernels::LaunchMagnitude(View(x), View(out), x.rows(), out.width(), stream);
  });
}

}  // namespace kinora
