// Prepared weights: the matrices of linear layers and convolutions.
#ifndef KINORA_ENGINE_OPS_WEIGHT_H_
#define KINORA_ENGINE_OPS_WEIGHT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/tensor/dtype.h"

namespace kinora {

// A backend's form of a matrix and its bias: packed, quantised, with scales, on its device. Each backend derives its
// own class; the contents and addresses are opaque to all other code. Addresses do not change during the object's
// lifetime unless the weight is evicted (Ops::EvictWeight).
class WeightStorage {
 public:
  virtual ~WeightStorage() = default;
  // Returns the stored size, including padding, scales and bias.
  virtual int64_t bytes() const = 0;
};

// The location of a weight: on the device, or in host memory, from which it is copied to the device for each use.
enum class Residence : uint8_t { kResident, kEvicted };

// How a backend stores weights, for planning. Does not need the device.
class WeightLayout {
 public:
  virtual ~WeightLayout() = default;
  // Whether the backend multiplies by weights of `dtype`.
  virtual bool Stores(DType dtype) const = 0;
  // Returns the size of [out, taps, in] in a dtype that the backend stores, with padding and scales, without the bias.
  virtual int64_t Bytes(DType dtype, int64_t out, int64_t taps, int64_t in) const = 0;
  // Returns the size of the bias [out] of such a weight.
  virtual int64_t BiasBytes(DType /*dtype*/, int64_t out) const { return out * DTypeSize(DType::kF32); }
};

// Made by Ops::PrepareWeights. Logically [out, taps, in] with an optional bias [out]: a linear layer has one tap, a
// convolution one per kernel position, time-major (t, h, w).
class Weight {
 public:
  Weight() = default;
  // storage: null for a weight that is never used in a computation.
  Weight(DType dtype, int64_t out, int64_t taps, int64_t in, bool has_bias, std::shared_ptr<WeightStorage> storage)
      : dtype_(dtype), has_bias_(has_bias), out_(out), taps_(taps), in_(in), storage_(std::move(storage)) {}

  // The dtype in which products are computed (sums are float32).
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

// Matrices of one shape, read in runs of rows so that no matrix has to be in memory as a whole before it is packed.
struct WeightRows {
  int64_t out = 0, taps = 1, in = 0;
  int count = 1;              // number of matrices
  DType dtype = DType::kF32;  // of the rows: kF32 or kBF16
  // Reads rows [begin, end) of every matrix into rows [count, end − begin, taps · in]. Called from several threads
  // at once.
  absl::FunctionRef<absl::Status(int64_t begin, int64_t end, void* rows)> read;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_WEIGHT_H_
