#include "engine/ops/cuda/cuda_memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/ops/cuda/cuda_status.h"

namespace kinora {
namespace {

constexpr int64_t kPieceAlignment = 256;

absl::Status NotReserved(cudaError_t error, int64_t bytes, std::string_view kind, std::string_view what) {
  if (error != cudaErrorMemoryAllocation) return CudaStatus(error, "reserving memory");
  size_t free_bytes = 0, total = 0;
  cudaMemGetInfo(&free_bytes, &total);
  return absl::ResourceExhaustedError(absl::StrCat("cannot reserve ", bytes, " bytes of ", std::string(kind), " for ",
                                                   std::string(what), ": ", free_bytes, " of the device's ", total,
                                                   " are free"));
}

}  // namespace

absl::StatusOr<Buffer> AllocateOnDevice(int64_t bytes, std::string_view what) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, std::max<int64_t>(1, bytes));
  if (error != cudaSuccess) return NotReserved(error, bytes, "device memory", what);
  return Buffer(data, bytes, [](void* memory) { cudaFree(memory); });
}

absl::StatusOr<Buffer> AllocatePinned(int64_t bytes, std::string_view what) {
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, bytes + 64, cudaHostAllocDefault);
  if (error != cudaSuccess) return NotReserved(error, bytes, "pinned host memory", what);
  return Buffer(data, bytes, [](void* memory) { cudaFreeHost(memory); });
}

Tensor Scratch::Take(DType dtype, const Shape& shape) {
  const int64_t bytes = shape.elements() * DTypeSize(dtype);
  const int64_t padded = (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  KINORA_CHECK(padded <= left()) << shape.ToString() << " in " << left() << " bytes of scratch memory";
  Tensor piece(dtype, shape, static_cast<char*>(memory_.data()) + used_);
  used_ += padded;
  return piece;
}

}  // namespace kinora
