// Memory of the current CUDA device, and pinned memory of the host, as Buffers.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_MEMORY_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_MEMORY_H_

#include <string_view>

#include "engine/ops/cuda_traits.h"
#include "engine/tensor/buffer.h"

namespace kinora {

// Aligned to 256 bytes; nothing lies behind the end. ResourceExhausted with the size, what is free, and `what` it is
// for.
absl::StatusOr<Buffer> AllocateOnDevice(int64_t bytes, std::string_view what);
// Pinned: the device copies from and to it without a stop in between.
absl::StatusOr<Buffer> AllocatePinned(int64_t bytes, std::string_view what);

// Hands out pieces of the scratch memory to one op; all of it is free again for the next one on the stream.
class Scratch {
 public:
  explicit Scratch(const Buffer& memory) : memory_(memory) {}
  int64_t left() const { return memory_.bytes() - used_; }
  // CHECK-fails beyond left(): an op cuts its work into pieces that fit.
  Tensor Take(DType dtype, const Shape& shape);

 private:
  const Buffer& memory_;
  int64_t used_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_MEMORY_H_
