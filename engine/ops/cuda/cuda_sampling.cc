// The denoising loop's arithmetic.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "kernels/sampling.h"

namespace kinora {

void CudaOps::PredictX0(const Tensor& z, const Tensor& v, const Tensor& sigma, Tensor x0) {
  const int64_t tokens = z.rows();
  KINORA_CHECK(v.rows() % tokens == 0 && v.width() == z.width() && x0.elements() == v.elements())
      << v.shape().ToString();
  KINORA_CHECK(sigma.elements() == 1 || sigma.elements() == tokens) << sigma.shape().ToString();
  KINORA_CHECK(z.contiguous() && v.contiguous() && x0.contiguous() && sigma.contiguous());
  const kernels::PredictX0 args{.z = z.data<float>(),
                                .v = v.data<float>(),
                                .sigma = sigma.data<float>(),
                                .x0 = x0.data<float>(),
                                .passes = v.rows() / tokens,
                                .tokens = tokens,
                                .channels = z.width(),
                                .sigma_per_token = sigma.elements() == tokens};
  stream_->Enqueue("PredictX0", v, [&](cudaStream_t handle) { return kernels::LaunchPredictX0(args, handle); });
}

void CudaOps::CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) {
  const int64_t n = out.elements(), passes = weights.elements() - 1;
  KINORA_CHECK(x0.elements() == n * passes && x0.contiguous() && out.contiguous()) << x0.shape().ToString();
  KINORA_CHECK(passes >= 1 && passes <= 4 && cond >= 0 && cond < passes && weights.contiguous())
      << "pass " << cond << " of " << passes;
  Scratch scratch(scratch_);
  const Tensor parts = scratch.Take(DType::kU8, {2 * kernels::kSpreadParts * int64_t{sizeof(kernels::SpreadPart)}});
  const kernels::CombineGuidance args{.x0 = x0.data<float>(),
                                      .weights = weights.data<float>(),
                                      .out = out.data<float>(),
                                      .elements = n,
                                      .passes = static_cast<int>(passes),
                                      .cond = cond,
                                      .parts = static_cast<kernels::SpreadPart*>(parts.raw())};
  stream_->Enqueue("CombineGuidance", out,
                   [&](cudaStream_t handle) { return kernels::LaunchCombineGuidance(args, handle); });
}

void CudaOps::EulerStep(const Tensor& x0, const Tensor& sigmas, Tensor z) {
  KINORA_CHECK(x0.elements() == z.elements() && x0.contiguous() && z.contiguous()) << x0.shape().ToString();
  KINORA_CHECK(sigmas.elements() == 2 && sigmas.contiguous()) << sigmas.shape().ToString();
  const float *from = x0.data<float>(), *levels = sigmas.data<float>();
  float* const to = z.data<float>();
  stream_->Enqueue("EulerStep", z, [&](cudaStream_t handle) {
    return kernels::LaunchEulerStep(from, levels, to, z.elements(), handle);
  });
}

}  // namespace kinora
