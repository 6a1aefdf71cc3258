#include "engine/tensor/arena.h"

#include <algorithm>

namespace kinora {

Tensor Arena::Alloc(DType dtype, const Shape& shape) {
  constexpr int64_t kAlignment = 64;
  const int64_t bytes = (shape.elements() * DTypeSize(dtype) + kAlignment - 1) / kAlignment * kAlignment;
  char* data = dry_ ? nullptr : static_cast<char*>(memory_.data()) + used_;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  KINORA_CHECK(dry_ || used_ <= memory_.bytes())
      << "arena of " << memory_.bytes() << " bytes is too small for " << shape.ToString() << " at " << used_ - bytes;
  return Tensor(dtype, shape, data);
}

}  // namespace kinora
