// One prepared matrix: what a linear layer or a convolution multiplies by.
#ifndef KINORA_ENGINE_OPS_WEIGHT_H_
#define KINORA_ENGINE_OPS_WEIGHT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/tensor/buffer.h"

namespace kinora {

// Made by Ops::PrepareWeights only. Logically [out, taps, in] with an optional bias [out]: a linear layer has one tap,
// a convolution one per kernel position, time-major (t, h, w). The storage layout is the backend's. Keeps its address
// for as long as it lives.
class Weight {
 public:
  Weight() = default;
  Weight(DType dtype, int64_t out, int64_t taps, int64_t in, Buffer storage, Buffer bias)
      : dtype_(dtype), out_(out), taps_(taps), in_(in), storage_(std::move(storage)), bias_(std::move(bias)) {}

  DType dtype() const { return dtype_; }  // f32 or bf16: what the products are computed in (sums are float32)
  int64_t out() const { return out_; }
  int64_t taps() const { return taps_; }
  int64_t in() const { return in_; }
  bool has_bias() const { return bias_.bytes() > 0; }
  const void* storage() const { return storage_.data(); }
  const float* bias() const { return static_cast<const float*>(bias_.data()); }  // null without one
  int64_t bytes() const { return storage_.bytes() + bias_.bytes(); }             // as stored, padding included
  int64_t parameters() const { return out_ * taps_ * in_ + (has_bias() ? out_ : 0); }

 private:
  DType dtype_ = DType::kF32;
  int64_t out_ = 0, taps_ = 0, in_ = 0;
  Buffer storage_, bias_;
};

// Matrices of one shape that arrive in runs of rows, so that none has to lie in memory whole before it is packed.
struct WeightRows {
  int64_t out = 0, taps = 1, in = 0;
  int count = 1;              // matrices
  DType dtype = DType::kF32;  // of the rows: kF32 or kBF16
  // Rows [begin, end) of every matrix: rows [count, end − begin, taps · in]. Called from several threads at once.
  absl::FunctionRef<absl::Status(int64_t begin, int64_t end, void* rows)> read;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_WEIGHT_H_
