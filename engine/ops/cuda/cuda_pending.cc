// What is not there yet says so.
#include "engine/ops/cuda/cuda_ops.h"

namespace kinora {
namespace {

absl::Status NotYet(const char* op) {
  return absl::UnimplementedError(std::string(op) + ": not available on cuda yet");
}

}  // namespace

void CudaOps::AttendByProducts(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&, const Tensor&) {
  stream_->Fail(NotYet("Attention by products"));
}
void CudaOps::NormalizeRange(const Tensor&, float, float, Tensor) { stream_->Fail(NotYet("NormalizeRange")); }
void CudaOps::NormRope(Tensor, const NormRopeParams&, const Tensor*) { stream_->Fail(NotYet("NormRope")); }
void CudaOps::SumOfSquares(const Tensor&, Tensor) { stream_->Fail(NotYet("SumOfSquares")); }
void CudaOps::GatherRows(const Tensor&, const Tensor&, float, Tensor) { stream_->Fail(NotYet("GatherRows")); }
void CudaOps::TimestepEmbedding(const Tensor&, Tensor) { stream_->Fail(NotYet("TimestepEmbedding")); }
void CudaOps::PredictX0(const Tensor&, const Tensor&, const Tensor&, Tensor) { stream_->Fail(NotYet("PredictX0")); }
void CudaOps::CombineGuidance(const Tensor&, const Tensor&, int, Tensor) { stream_->Fail(NotYet("CombineGuidance")); }
void CudaOps::EulerStep(const Tensor&, const Tensor&, Tensor) { stream_->Fail(NotYet("EulerStep")); }

}  // namespace kinora
