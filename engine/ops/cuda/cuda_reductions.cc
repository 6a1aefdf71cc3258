// Sums over rows and over whole tensors.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/reductions.h"

namespace kinora {

void CudaOps::SumOfSquares(const Tensor& x, Tensor out) {
  CheckFloat(x);
  CheckRowWidth(x);
  KINORA_CHECK(out.elements() == x.rows() && out.contiguous()) << out.shape().ToString();
  if (x.elements() == 0) return;
  float* const to = out.data<float>();
  stream_->Enqueue("SumOfSquares", x, [&](cudaStream_t handle) {
    return kernels::LaunchSumOfSquares(View(x), x.rows(), x.width(), to, handle);
  });
}

void CudaOps::NormalizeRange(const Tensor& x, float scale, float eps, Tensor out) {
  CheckSameShape(x, out);
  KINORA_CHECK(x.rows() > 0) << x.shape().ToString();
  Scratch scratch(scratch_);
  const Tensor parts = scratch.Take(DType::kU8, {kernels::kRangeParts * int64_t{sizeof(kernels::RangePart)}});
  const kernels::NormalizeRange args{.x = View(x),
                                     .out = View(out),
                                     .rows = x.rows(),
                                     .width = x.width(),
                                     .scale = scale,
                                     .eps = eps,
                                     .parts = static_cast<kernels::RangePart*>(parts.raw())};
  stream_->Enqueue("NormalizeRange", x,
                   [&](cudaStream_t handle) { return kernels::LaunchNormalizeRange(args, handle); });
}

}  // namespace kinora
