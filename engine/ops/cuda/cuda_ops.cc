#include "engine/ops/cuda/cuda_ops.h"

#include <limits>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_status.h"
#include "kernels/increment.h"

namespace kinora {
namespace {

constexpr int64_t kAnyFallback = std::numeric_limits<int64_t>::max();  // where cuDNN is off on purpose

// In place of a library that is switched off.
class NoCudnn : public Cudnn {
 public:
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnAttention&) override { return Off(); }
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnConvolution&) override { return Off(); }

 private:
  static absl::Status Off() { return absl::UnimplementedError("cuDNN is switched off"); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::WithWorkspaces(ThreadPool& pool, const CudaSwitches& switches) {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaStream> stream, CudaStream::Create());
  std::unique_ptr<CudaOps> ops(new CudaOps(std::move(stream), pool));
  ops->switches_ = switches;
  ops->stream_->SetCaptures(switches.graphs);
  ops->stream_->SetSynchronizes(switches.synchronize);
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&ops->device_), "the current device"));
  KINORA_ASSIGN_OR_RETURN(ops->product_workspace_,
                          AllocateOnDevice(kProductWorkspaceBytes, "the libraries' workspace"));
  KINORA_ASSIGN_OR_RETURN(ops->scratch_, AllocateOnDevice(kScratchBytes, "the ops' scratch memory"));
  return ops;
}

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Create(ThreadPool& pool, Products::Options products,
                                                         const CudaSwitches& switches) {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> ops, WithWorkspaces(pool, switches));
  if (!switches.tuning) products.tuning_file.clear();
  KINORA_ASSIGN_OR_RETURN(ops->products_, Products::Open(kProductWorkspaceBytes, std::move(products)));
  std::unique_ptr<Cudnn> cudnn = std::make_unique<NoCudnn>();
  if (switches.cudnn) {
    KINORA_ASSIGN_OR_RETURN(cudnn, OpenCudnn());
  }
  ops->cudnn_ = std::make_shared<CudnnPlans>(std::move(cudnn), kMostPlanBytes);
  ops->fallbacks_ = std::make_shared<Fallbacks>(switches.cudnn ? kMostFallbackValues : kAnyFallback);
  return ops;
}

absl::StatusOr<std::unique_ptr<CudaOps>> CudaOps::Branch() const {
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> branch, WithWorkspaces(pool_, switches_));
  branch->products_ = products_;
  branch->cudnn_ = cudnn_;
  branch->fallbacks_ = fallbacks_;
  return branch;
}

void CudaOps::Increment(Tensor counters) {
  KINORA_CHECK(counters.contiguous()) << counters.shape().ToString();
  stream_->Enqueue("Increment", counters, [&](cudaStream_t stream) {
    return kernels::LaunchIncrement(counters.data<int32_t>(), counters.elements(), stream);
  });
}

}  // namespace kinora
