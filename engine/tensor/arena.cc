#include "engine/tensor/arena.h"

#include <algorithm>
#include <utility>

namespace kinora {

Tensor Arena::Alloc(DType dtype, const Shape& shape) {
  constexpr int64_t kAlignment = 64;
  const int64_t bytes = (shape.elements() * DTypeSize(dtype) + kAlignment - 1) / kAlignment * kAlignment;
  char* data = dry_ ? nullptr : static_cast<char*>(memory_.data()) + used_;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  KINORA_CHECK(dry_ || used_ <= capacity_)
      << "arena of " << capacity_ << " bytes is too small for " << shape.ToString() << " at " << used_ - bytes;
  return Tensor(dtype, shape, data);
}

void Arena::EndAt(int64_t capacity) {
  KINORA_CHECK(used_ <= capacity && capacity <= memory_.bytes()) << used_ << ", " << capacity;
  capacity_ = capacity;
}

Tensor Arena::Behind(int64_t offset, DType dtype, const Shape& shape) const {
  const int64_t bytes = shape.elements() * DTypeSize(dtype);
  KINORA_CHECK(!dry_ && capacity_ <= offset && offset % 64 == 0 && offset + bytes <= memory_.bytes())
      << shape.ToString() << " at " << offset;
  return Tensor(dtype, shape, static_cast<char*>(memory_.data()) + offset);
}

void Arena::KeepAllOf(absl::FunctionRef<void()> body) {
  const int64_t peak = std::exchange(peak_, used_);
  body();
  used_ = peak_;
  peak_ = std::max(peak, peak_);
}

}  // namespace kinora
