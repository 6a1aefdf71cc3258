#include "engine/ops/cuda/cuda_ops.h"

#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_status.h"
#include "kernels/increment.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::WithWorkspaces(ThreadPool& pool) {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaStream> stream, CudaStream::Create());
  std::unique_ptr<CudaOps> ops(new CudaOps(std::move(stream), pool));
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&ops->device_), "the current device"));
  KINORA_ASSIGN_OR_RETURN(ops->product_workspace_,
                          AllocateOnDevice(kProductWorkspaceBytes, "the libraries' workspace"));
  KINORA_ASSIGN_OR_RETURN(ops->scratch_, AllocateOnDevice(kScratchBytes, "the ops' scratch memory"));
  return ops;
}

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Create(ThreadPool& pool, const Products::Options& products) {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> ops, WithWorkspaces(pool));
  KINORA_ASSIGN_OR_RETURN(ops->products_, Products::Open(kProductWorkspaceBytes, products));
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Cudnn> cudnn, OpenCudnn());
  ops->cudnn_ = std::make_shared<CudnnPlans>(std::move(cudnn));
  return ops;
}

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Branch() const {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> branch, WithWorkspaces(pool_));
  branch->products_ = products_;
  branch->cudnn_ = cudnn_;
  return branch;
}

void CudaOps::Increment(Tensor counters) {
  KINORA_CHECK(counters.contiguous()) << counters.shape().ToString();
  stream_->Enqueue("Increment", counters, [&](cudaStream_t stream) {
    return kernels::LaunchIncrement(counters.data<int32_t>(), counters.elements(), stream);
  });
}

}  // namespace kinora
