// One tensor of a checkpoint, read in parts as float32. Staging memory is bounded; only the bytes asked for are read.
#ifndef KINORA_ENGINE_WEIGHTS_TENSOR_SOURCE_H_
#define KINORA_ENGINE_WEIGHTS_TENSOR_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

class TensorSource {
 public:
  // scale: what every element is multiplied by, in float32, after widening (per-tensor FP8); 1 otherwise.
  TensorSource(const Checkpoint::Entry& entry, float scale) : entry_(entry), scale_(scale) {}

  const Shape& shape() const { return entry_.tensor->shape; }

  // Rows [begin, end) of the first dimension; a scalar has one row.   out: [end − begin, elements of a row]
  absl::Status ReadRows(int64_t begin, int64_t end, float* out) const;
  // Columns [begin, end) of a matrix.   out: [rows, end − begin]
  absl::Status ReadColumns(int64_t begin, int64_t end, float* out) const;

 private:
  absl::Status ReadElements(int64_t first, int64_t count, float* out) const;

  Checkpoint::Entry entry_;
  float scale_;
};

// Index of the first NaN or infinity, or −1.
int64_t FirstNotFinite(const float* values, int64_t count);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_TENSOR_SOURCE_H_
