#include "engine/ops/cuda/clean_copies.h"

#include <string>

#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_memory.h"
#include "engine/ops/cuda/cuda_status.h"
#include "engine/ops/cuda/cuda_views.h"
#include "kernels/copy_rows.h"

namespace kinora {
namespace {

constexpr char kCopy[] = "a copy of a weight without LoRAs";

}  // namespace

// Returns an empty buffer if the budget is used up, or if the system has less memory than the budget: then the budget
// ends here.
absl::StatusOr<Buffer> CleanCopies::Take(int64_t bytes, bool on_device) {
  int64_t& most = on_device ? most_.device_bytes : most_.host_bytes;
  int64_t& used = on_device ? used_.device_bytes : used_.host_bytes;
  if (bytes > most - used) return Buffer();
  absl::StatusOr<Buffer> memory = on_device ? AllocateOnDevice(bytes, kCopy) : AllocatePinned(bytes, kCopy);
  if (absl::IsResourceExhausted(memory.status())) {
    Log(Severity::kWarning, "clean_weights_limited",
        {{"used_bytes", used}, {"planned_bytes", most}, {"why", std::string(memory.status().message())}});
    most = used;
    return Buffer();
  }
  if (memory.ok()) used += bytes;
  return memory;
}

absl::Status CleanCopies::Keep(DType rows, DType dtype, CudaWeight& weight, cudaStream_t stream) {
  const bool exact = rows == dtype || dtype == DType::kF32;
  if (!exact || weight.has_products || weight.clean.data() != nullptr) return absl::OkStatus();
  const int64_t bytes = weight.matrix.bytes();
  for (const bool on_device : {true, false}) {
    KINORA_ASSIGN_OR_RETURN(weight.clean, Take(bytes, on_device));
    if (weight.clean.data() == nullptr) continue;
    weight.clean_on_device = on_device;
    const cudaMemcpyKind kind = on_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
    absl::Status copied =
        CudaStatus(cudaMemcpyAsync(weight.clean.data(), weight.matrix.data(), bytes, kind, stream), kCopy);
    if (copied.ok()) return copied;
    weight.clean = Buffer();
    (on_device ? used_.device_bytes : used_.host_bytes) -= bytes;
    return copied;
  }
  return absl::OkStatus();
}

absl::Status CleanCopies::Restore(const CudaWeight& weight, DType dtype, int64_t begin, int64_t end,
                                  cudaStream_t stream) {
  const int64_t row = weight.stride * DTypeSize(dtype);
  const char* const from = static_cast<const char*>(weight.clean.data()) + begin * row;
  char* const to = static_cast<char*>(weight.matrix.data()) + begin * row;
  const cudaMemcpyKind kind = weight.clean_on_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return CudaStatus(cudaMemcpyAsync(to, from, (end - begin) * row, kind, stream), "a weight without LoRAs");
}

absl::Status CleanCopies::Widen(const CudaWeight& weight, DType dtype, int64_t begin, int64_t end, const Tensor& sums,
                                cudaStream_t stream) {
  // The kernel reads device memory only, so rows in pinned memory first go to where they will be overwritten.
  if (!weight.clean_on_device) KINORA_RETURN_IF_ERROR(Restore(weight, dtype, begin, end, stream));
  const Buffer& source = weight.clean_on_device ? weight.clean : weight.matrix;
  char* const rows = static_cast<char*>(source.data()) + begin * weight.stride * DTypeSize(dtype);
  return CudaStatus(
      kernels::LaunchCopyRows({rows, weight.stride, KernelType(dtype)}, View(sums), end - begin, sums.width(), stream),
      "a weight without LoRAs");
}

}  // namespace kinora
