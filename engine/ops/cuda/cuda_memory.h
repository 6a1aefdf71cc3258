// Memory of the current CUDA device, and pinned memory of the host, as Buffers.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_MEMORY_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_MEMORY_H_

#include <string_view>

#include "engine/ops/cuda_traits.h"
#include "engine/tensor/buffer.h"

namespace kinora {

// Allocates device memory, aligned to 256 bytes; nothing past the end is readable. Fails with ResourceExhausted, naming
// the size, the free memory, and `what` it is for.
absl::StatusOr<Buffer> AllocateOnDevice(int64_t bytes, std::string_view what);
// Allocates pinned host memory, which the device copies from and to directly. Fails as AllocateOnDevice does.
absl::StatusOr<Buffer> AllocatePinned(int64_t bytes, std::string_view what);

inline constexpr int64_t kScratchPadding = 1024;  // for gaps between pieces of the scratch memory

// Allocates pieces of the scratch memory for one op. The next op on the stream may use all of it again.
class Scratch {
 public:
  explicit Scratch(const Buffer& memory) : memory_(memory) {}
  int64_t left() const { return memory_.bytes() - used_; }
  // CHECK-fails beyond left(): an op must divide its work into parts that fit.
  Tensor Take(DType dtype, const Shape& shape);

 private:
  const Buffer& memory_;
  int64_t used_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_MEMORY_H_
