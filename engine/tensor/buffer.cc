#include "engine/tensor/buffer.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kinora {

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() { std::free(data_); }

absl::StatusOr<Buffer> Buffer::Allocate(int64_t bytes, std::string_view what) {
  KINORA_CHECK(bytes >= 0) << bytes;
  constexpr int64_t kAlignment = 64;
  constexpr int64_t kMaxBytes = int64_t{1}
                                << 46;  // beyond any address space; keeps the rounding below from overflowing
  Buffer buffer;
  if (bytes <= kMaxBytes) {
    // Whole cache lines, and one more, so that a vector load of the last elements stays inside.
    buffer.data_ = std::aligned_alloc(kAlignment, (bytes / kAlignment + 2) * kAlignment);
  }
  if (buffer.data_ == nullptr)
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", bytes, " bytes of memory for ", std::string(what)));
  buffer.bytes_ = bytes;
  return buffer;
}

Buffer Buffer::Dry(int64_t bytes) {
  Buffer buffer;
  buffer.bytes_ = bytes;
  return buffer;
}

Tensor Buffer::View(DType dtype, const Shape& shape) const {
  KINORA_CHECK(shape.elements() * DTypeSize(dtype) <= bytes_) << shape.ToString() << " in " << bytes_ << " bytes";
  return Tensor(dtype, shape, data_);
}

}  // namespace kinora
