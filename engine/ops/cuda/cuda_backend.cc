// Linked into builds with CUDA; other builds link no_cuda_backend.cc.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/cache_folder.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/ops/backend_kinds.h"
#include "engine/ops/clean_weights.h"
#include "engine/ops/cuda/cuda_memory.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_status.h"
#include "engine/ops/cuda/cudnn_listing.h"
#include "engine/ops/cuda/kernel_images.h"
#include "engine/ops/cuda/nvtx_ranges.h"
#include "engine/ops/cuda_switches.h"
#include "engine/ops/one_time_work.h"
#include "engine/ops/thread_pool.h"
#include "kernels/early_launch.h"

namespace kinora {
namespace {

constexpr int kLeastMajor = 8;  // Ampere: bf16 in tensor cores, cp.async

std::string Version(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

// Returns why this process cannot use a device, and what to do about it.
absl::Status Unusable(cudaError_t error) {
  constexpr char kElse[] = ", or use the cpu";
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (error == cudaErrorInsufficientDriver && driver > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device: cuda: the driver knows CUDA ", Version(driver), ", this build needs ", Version(CUDART_VERSION),
        ": update the driver to 580 or later, or on a data center GPU install the forward-compatibility package "
        "cuda-compat-",
        CUDART_VERSION / 1000, "-", CUDART_VERSION % 1000 / 10, " and put its folder first in LD_LIBRARY_PATH", kElse));
  }
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice) {
    return absl::FailedPreconditionError(
        absl::StrCat("device: cuda: ", driver == 0 ? "no NVIDIA driver" : "no device that CUDA_VISIBLE_DEVICES shows",
                     " on this machine: give the process one", kElse));
  }
  return CudaStatus(error, "device: cuda");
}

absl::StatusOr<cudaDeviceProp> UsableDevice() {
  int count = 0, device = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return Unusable(error);
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "device: cuda"));
  cudaDeviceProp properties;
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, device), "device: cuda"));
  if (properties.major < kLeastMajor) {
    return absl::FailedPreconditionError(absl::StrCat("device: cuda: ", properties.name, " has compute capability ",
                                                      properties.major, ".", properties.minor, ", ", kLeastMajor,
                                                      ".0 is needed (A100, L40S, H100, B200 …): use the cpu"));
  }
  if (!HasKernelsFor(properties.major, properties.minor, KINORA_CUDA_ARCHS)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device: cuda: ", properties.name, " has compute capability ", properties.major, ".", properties.minor,
        ", this build has kernels for ", CapabilitiesWithKernels(KINORA_CUDA_ARCHS),
        ": build Kinora with -DKINORA_CUDA_ARCHS=", properties.major, properties.minor, "-real, or use the cpu"));
  }
  return properties;
}

class CudaBackend : public Backend, public WorksAhead, public KeepsCleanWeights {
 public:
  CudaBackend(BackendTraits traits, MemoryLimit memory, std::unique_ptr<ThreadPool> threads,
              std::unique_ptr<CudaOps> ops, std::unique_ptr<CudaOps> branch)
      : traits_(std::move(traits)),
        memory_(std::move(memory)),
        threads_(std::move(threads)),
        ops_(std::move(ops)),
        branch_(std::move(branch)) {}

  const BackendTraits& traits() const override { return traits_; }
  MemoryLimit usable_memory() const override { return memory_; }
  CudaOps& ops() override { return *ops_; }
  CudaOps* branch() override { return branch_.get(); }
  absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what) override {
    return AllocateOnDevice(bytes, what);
  }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, std::string_view what) override {
    return AllocatePinned(bytes, what);
  }
  absl::StatusOr<Buffer> Upload(Buffer host, std::string_view what) override {
    KINORA_ASSIGN_OR_RETURN(Buffer device, AllocateOnDevice(host.bytes(), what));
    ops_->stream().CopyFromHost(host.data(), device.View(DType::kU8, {host.bytes()}));
    KINORA_RETURN_IF_ERROR(ops_->stream().Synchronize());
    return device;
  }
  void RunOnHost(int64_t tasks, absl::FunctionRef<void(int64_t task)> task) override {
    threads_->Run(tasks, [&](int64_t i, int) { task(i); });
  }
  std::unique_ptr<ListingBackend> MakeListing() const override { return std::make_unique<CudnnListing>(traits_); }
  void DoAhead(const OneTimeWork& work) override { ops_->BuildPlans(static_cast<const ListedPlans&>(work).shapes); }
  void KeepCleanWeights(const CleanMemory& most) override { ops_->clean().SetMost(most); }
  CleanMemory clean_weights() const override { return ops_->clean().used(); }

 private:
  const BackendTraits traits_;
  const MemoryLimit memory_;
  const std::unique_ptr<ThreadPool> threads_;
  const std::unique_ptr<CudaOps> ops_, branch_;
};

Products::Options ProductOptions(const cudaDeviceProp& properties, const BackendOptions& options) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  const std::string folder = options.cache_folder.empty() ? CacheFolder() : options.cache_folder;
  return {.tuning_file = folder.empty() ? "" : folder + "/products.txt",
          .device = absl::StrCat(properties.name, " driver ", Version(driver))};
}

void LogSwitches(const CudaSwitches& switches) {
  const auto on = [](bool value) { return value ? "on" : "off"; };
  Log(Severity::kWarning, "cuda_switches",
      {{"graphs", on(switches.graphs)},
       {"early_launch", on(switches.early_launch)},
       {"branch", on(switches.branch)},
       {"cudnn", on(switches.cudnn)},
       {"tuning", on(switches.tuning)},
       {"synchronize", on(switches.synchronize)}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(const BackendOptions& options) {
  KINORA_ASSIGN_OR_RETURN(const CudaSwitches switches, ReadCudaSwitches(options.cuda));
  if (switches != CudaSwitches{}) LogSwitches(switches);
  kernels::early_launch_allowed = switches.early_launch;
  KINORA_ASSIGN_OR_RETURN(const cudaDeviceProp properties, UsableDevice());
  SendRangesToNvtx();
  size_t free_bytes = 0, total = 0;
  KINORA_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free_bytes, &total), "device: cuda"));
  KINORA_ASSIGN_OR_RETURN(BackendTraits traits, CudaTraits(options));
  auto threads = std::make_unique<ThreadPool>(options.threads);
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> ops,
                          CudaOps::Create(*threads, ProductOptions(properties, options), switches));
  std::unique_ptr<CudaOps> branch;
  if (switches.branch) {
    KINORA_ASSIGN_OR_RETURN(branch, ops->Branch());
  }
  return std::make_unique<CudaBackend>(std::move(traits),
                                       MemoryLimit{static_cast<int64_t>(free_bytes), "the device's free memory"},
                                       std::move(threads), std::move(ops), std::move(branch));
}

absl::StatusOr<std::string> CudaName(const BackendOptions&) {
  KINORA_ASSIGN_OR_RETURN(const cudaDeviceProp properties, UsableDevice());
  return std::string(properties.name);
}

}  // namespace kinora
