// The denoising loop's arithmetic.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
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

void CudaOps::RunGuidedStep(const char* op, const Tensor& x0, kernels::GuidedStep step) {
  Scratch scratch(scratch_);
  const Tensor parts = scratch.Take(DType::kU8, {2 * kernels::kSpreadParts * int64_t{sizeof(kernels::SpreadPart)}});
  step.parts = static_cast<kernels::SpreadPart*>(parts.raw());
  step.x0 = x0.data<float>();
  stream_->Enqueue(op, x0, [&](cudaStream_t handle) { return kernels::LaunchGuidedStep(step, handle); });
}

void CudaOps::CombineGuidance(const Tensor& x0, const Tensor& weights, int cond, Tensor out) {
  CheckGuidance(x0, weights, cond, out);
  RunGuidedStep("CombineGuidance", out,
                {.v = x0.data<float>(),
                 .weights = weights.data<float>(),
                 .tokens = out.rows(),
                 .channels = out.width(),
                 .passes = static_cast<int>(weights.elements() - 1),
                 .cond = cond});
}

void CudaOps::GuidedEulerStep(const Prediction& p, const Tensor& sigmas, Tensor z) {
  CheckPrediction(p, sigmas, z);
  RunGuidedStep("GuidedEulerStep", p.x0,
                {.v = p.v.data<float>(),
                 .weights = p.weights.data<float>(),
                 .sigma = p.sigma.data<float>(),
                 .tokens = z.rows(),
                 .channels = z.width(),
                 .passes = static_cast<int>(p.weights.elements() - 1),
                 .cond = p.cond,
                 .sigma_per_token = p.sigma.elements() == z.rows(),
                 .clean = p.clean.defined() ? p.clean.data<float>() : nullptr,
                 .blend = View(p.mask),
                 .sigmas = sigmas.data<float>(),
                 .z = z.data<float>()});
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
