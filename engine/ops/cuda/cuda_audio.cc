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

void CudaOps::Snake(const Tensor& x, const AntiAliasedSnake& snake, Tensor out) {
  CheckSnake(x, snake, out);
  if (x.elements() == 0) return;
  stream_->Enqueue("Snake", x, [&](cudaStream_t stream) {
    return kernels::LaunchSnake({.x = x.data<float>(),
                                 .out = out.data<float>(),
                                 .rows = x.rows(),
                                 .width = x.width(),
                                 .frequency = snake.frequency.data<float>(),
                                 .amplitude = snake.amplitude.data<float>(),
                                 .up = snake.up.data<float>(),
                                 .down = snake.down.data<float>(),
                                 .up_taps = static_cast<int>(snake.up.elements()),
                                 .down_taps = static_cast<int>(snake.down.elements())},
                                stream);
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
