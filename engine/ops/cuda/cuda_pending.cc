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

}  // namespace kinora
