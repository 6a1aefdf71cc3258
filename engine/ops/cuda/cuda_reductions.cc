// Sums over rows, over groups of columns and over whole tensors.
#include <algorithm>

#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/group_norm.h"
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

void CudaOps::GroupNorm(const Tensor& x, const GroupNormParams& params, Tensor out) {
  CheckGroupNorm(x, params, /*residual=*/nullptr, out);
  RunGroupNorm("GroupNorm", x, params, /*residual=*/Tensor(), /*silu=*/false, out);
}

void CudaOps::GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out) {
  CheckGroupNorm(x, params, residual, out);
  RunGroupNorm("GroupNormThenSilu", x, params, residual != nullptr ? *residual : Tensor(), /*silu=*/true, out);
}

void CudaOps::RunGroupNorm(const char* op, const Tensor& x, const GroupNormParams& params, const Tensor& residual,
                           bool silu, const Tensor& out) {
  const int64_t rows = x.rows() / params.samples;
  const int64_t part_bytes = params.groups * kernels::GroupNormParts(rows) * int64_t{sizeof(kernels::GroupPart)};
  Scratch scratch(scratch_);
  const int64_t most = std::min(params.samples, scratch.left() / part_bytes);  // samples at a time
  const Tensor parts = scratch.Take(DType::kU8, {most * part_bytes});
  kernels::GroupNorm args{.rows = rows,
                          .width = x.width(),
                          .groups = params.groups,
                          .weight = params.weight.data<float>(),
                          .bias = params.bias.data<float>(),
                          .eps = params.eps,
                          .silu = silu,
                          .parts = static_cast<kernels::GroupPart*>(parts.raw())};
  for (int64_t sample = 0; sample < params.samples; sample += args.samples) {
    args.samples = std::min(most, params.samples - sample);
    const auto view = [&](const Tensor& t) {
      return View(t.As2D().Rows(sample * rows, (sample + args.samples) * rows));
    };
    args.x = view(x);
    args.out = view(out);
    if (residual.defined()) args.residual = view(residual);
    stream_->Enqueue(op, x, [&](cudaStream_t handle) { return kernels::LaunchGroupNorm(args, handle); });
  }
}

}  // namespace kinora
