#include "engine/ops/cuda/cudnn_listing.h"

#include "engine/ops/cuda/cudnn_calls.h"
#include "engine/ops/op_checks.h"

namespace kinora {

void CudnnListing::ListingOps::Attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionOptions& options, Tensor out) {
  DryOps::Attention(q, k, v, options, out);
  if (q.rows() == 0 || KeysThatCount(k, options) == 0) return;
  if (!IsForCudnn(q, k, v, options, out)) return;
  if (!IsNarrow(q, options) || !AreAligned(q, k, v, options, out)) return;
  for (const AttentionCall& call : CallsOf(q, k, v, options, out)) plans_->shapes.insert(call.shape);
}

void CudnnListing::ListingOps::Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) {
  DryOps::Conv(x, w, options, out);
  if (out.elements() == 0 || !IsForCudnn(x, w, options)) return;
  const ConvCalls calls(x, w, options, out);
  if (!calls.aligned) return;
  for (const FrameRun& run : calls.runs) plans_->shapes.insert(calls.ShapeOf(run));
}

}  // namespace kinora
