// Owned memory, 64-byte aligned. Memory with the model's lifetime is held in Buffers; shorter-lived memory comes from
// an Arena over a Buffer.
#ifndef KINORA_ENGINE_TENSOR_BUFFER_H_
#define KINORA_ENGINE_TENSOR_BUFFER_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tensor/tensor.h"

namespace kinora {

// Memory of the host or of a device, with the function that releases it. The host must not read or write device memory,
// only pass it to ops and copies.
class Buffer {
 public:
  using Release = std::function<void(void* data)>;

  Buffer() = default;
  // Takes ownership of memory reserved elsewhere. The destructor passes it to `release`; null: nothing is released.
  Buffer(void* data, int64_t bytes, Release release) : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  // Allocates ordinary host memory with undefined contents; 64 bytes past its end are readable. Fails with
  // ResourceExhausted, naming the size and `what` it is for, if the memory cannot be reserved.
  static absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what = "a buffer");
  // Returns a buffer with a size but no memory, for dry runs.
  static Buffer Dry(int64_t bytes) { return Buffer(nullptr, bytes, nullptr); }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Tensor View(DType dtype, const Shape& shape) const;  // CHECK-fails if it does not fit

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  Release release_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_BUFFER_H_
