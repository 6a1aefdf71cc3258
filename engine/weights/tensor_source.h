// One tensor of a checkpoint, read in parts as float32 or bfloat16. Staging memory is bounded. Reading is thread-safe.
#ifndef KINORA_ENGINE_WEIGHTS_TENSOR_SOURCE_H_
#define KINORA_ENGINE_WEIGHTS_TENSOR_SOURCE_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

// Part of a tensor seen as a matrix: the first dimension, and all others together. A scalar is one row of one column.
struct Block {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
};

class TensorSource {
 public:
  // scale: multiplies every element, in float32, after widening (per-tensor FP8); 1 otherwise.
  TensorSource(const Checkpoint::Entry& entry, float scale) : entry_(entry), scale_(scale) {}

  const Shape& shape() const { return entry_.tensor->shape; }
  int64_t rows() const { return shape().rank() == 0 ? 1 : shape()[0]; }
  int64_t columns() const { return shape().elements() / std::max<int64_t>(1, rows()); }
  // The narrower of kBF16 and kF32 that holds every value.
  DType dtype() const { return entry_.tensor->dtype == DType::kBF16 && scale_ == 1.0f ? DType::kBF16 : DType::kF32; }

  // dtype: kF32, or kBF16 if that is dtype().   out: [rows, columns]
  absl::Status Read(const Block& block, DType dtype, void* out) const;

 private:
  absl::Status ReadElements(int64_t first, int64_t count, DType dtype, void* out) const;

  Checkpoint::Entry entry_;
  float scale_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_TENSOR_SOURCE_H_
