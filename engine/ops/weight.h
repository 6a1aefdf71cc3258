// One prepared matrix: what a linear layer or a convolution multiplies by.
#ifndef KINORA_ENGINE_OPS_WEIGHT_H_
#define KINORA_ENGINE_OPS_WEIGHT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/tensor/dtype.h"

namespace kinora {

// What a backend keeps of a matrix and its bias: packed, quantised, with scales, on its device. Opaque to all but that
// backend, which derives from it; nobody else learns an address. Keeps its addresses for as long as it lives, unless it
// is evicted (Ops::EvictWeight).
class WeightStorage {
 public:
  virtual ~WeightStorage() = default;
  // As stored: padding, scales and bias included.
  virtual int64_t bytes() const = 0;
};

// Where weights live: on the device, or in host memory, from where they come to the device each time they are used.
enum class Residence : uint8_t { kResident, kEvicted };

// How a backend stores weights, as far as a plan must know: asked without its device.
class WeightLayout {
 public:
  virtual ~WeightLayout() = default;
  // Whether the backend multiplies by weights of `dtype`.
  virtual bool Stores(DType dtype) const = 0;
  // Of the storage of [out, taps, in] in a dtype that it stores, padding and scales included, the bias not.
  virtual int64_t Bytes(DType dtype, int64_t out, int64_t taps, int64_t in) const = 0;
  // Of the bias [out] of such a weight.
  virtual int64_t BiasBytes(DType /*dtype*/, int64_t out) const { return out * DTypeSize(DType::kF32); }
};

// Made by Ops::PrepareWeights only. Logically [out, taps, in] with an optional bias [out]: a linear layer has one tap,
// a convolution one per kernel position, time-major (t, h, w).
class Weight {
 public:
  Weight() = default;
  // storage: null for a weight that is never computed with.
  Weight(DType dtype, int64_t out, int64_t taps, int64_t in, bool has_bias, std::shared_ptr<WeightStorage> storage)
      : dtype_(dtype), has_bias_(has_bias), out_(out), taps_(taps), in_(in), storage_(std::move(storage)) {}

  // What the products are computed in (sums are float32).
  DType dtype() const { return dtype_; }
  int64_t out() const { return out_; }
  int64_t taps() const { return taps_; }
  int64_t in() const { return in_; }
  bool has_bias() const { return has_bias_; }
  const std::shared_ptr<WeightStorage>& storage() const { return storage_; }
  int64_t bytes() const { return storage_ != nullptr ? storage_->bytes() : 0; }
  int64_t parameters() const { return out_ * taps_ * in_ + (has_bias_ ? out_ : 0); }

 private:
  DType dtype_ = DType::kF32;
  bool has_bias_ = false;
  int64_t out_ = 0, taps_ = 0, in_ = 0;
  std::shared_ptr<WeightStorage> storage_;
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
