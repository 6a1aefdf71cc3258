// Owned memory, 64-byte aligned. Model-lifetime memory is Buffers; everything shorter comes from an Arena over one.
#ifndef KINORA_ENGINE_TENSOR_BUFFER_H_
#define KINORA_ENGINE_TENSOR_BUFFER_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tensor/tensor.h"

namespace kinora {

// Of the host or of a device: who made it said how it is released. A device's may not be read or written here, only
// named in ops and copies.
class Buffer {
 public:
  using Release = std::function<void(void* data)>;

  Buffer() = default;
  // Takes over memory that somebody else reserved; `release` gets it back when the buffer ends.
  Buffer(void* data, int64_t bytes, Release release) : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  // Ordinary host memory. ResourceExhausted, with the size and `what` it is for, if the memory cannot be had. Contents
  // are undefined. 64 bytes after the end may be read.
  static absl::StatusOr<Buffer> Allocate(int64_t bytes, std::string_view what = "a buffer");
  // A buffer that counts but holds nothing: what a dry run owns.
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
