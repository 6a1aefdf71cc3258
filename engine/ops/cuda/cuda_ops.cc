#include "engine/ops/cuda/cuda_ops.h"

#include "engine/base/status_macros.h"
#include "kernels/increment.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Create() {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaStream> stream, CudaStream::Create());
  std::unique_ptr<CudaOps> ops(new CudaOps(std::move(stream)));
  KINORA_ASSIGN_OR_RETURN(ops->product_workspace_,
                          AllocateOnDevice(kProductWorkspaceBytes, "the libraries' workspace"));
  KINORA_ASSIGN_OR_RETURN(ops->scratch_, AllocateOnDevice(kScratchBytes, "the ops' scratch memory"));
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Cudnn> cudnn, OpenCudnn());
  ops->cudnn_ = std::make_unique<CudnnPlans>(std::move(cudnn));
  return ops;
}

void CudaOps::Increment(Tensor counters) {
  KINORA_CHECK(counters.contiguous()) << counters.shape().ToString();
  stream_->Enqueue("Increment", counters, [&](cudaStream_t stream) {
    return kernels::LaunchIncrement(counters.data<int32_t>(), counters.elements(), stream);
  });
}

}  // namespace kinora
