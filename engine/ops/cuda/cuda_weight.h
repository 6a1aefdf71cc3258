// A weight as the CUDA backend stores it. Internal to the CUDA backend.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_WEIGHT_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_WEIGHT_H_

#include <algorithm>

#include "engine/ops/weight.h"
#include "engine/tensor/buffer.h"

namespace kinora {

struct CudaWeight : WeightStorage {
  Buffer matrix;     // [out, taps, in], the rows `stride` elements apart, zeros between them
  Buffer bias;       // [out] f32, or empty
  Buffer bias_bf16;  // the same, rounded, for results that are bf16; empty in an f32 weight
  Buffer evicted;    // the matrix in pinned memory; `matrix` is then the copy fetched last, or empty
  Buffer clean;      // the matrix from before products were added, on the device or in pinned memory; or empty
  bool clean_on_device = false;
  bool has_products = false;  // products were added, or a rewrite failed
  int64_t stride = 0;         // taps · in, rounded up to 16 bytes

  static const CudaWeight& Of(const Weight& w) { return static_cast<const CudaWeight&>(*w.storage()); }
  // The bias in the type of a result, which the libraries require; null without one.
  const void* BiasFor(DType result) const { return (result == DType::kF32 ? bias : bias_bf16).data(); }
  // Without the clean copy, which has a budget of its own.
  int64_t bytes() const override {
    return std::max(matrix.bytes(), evicted.bytes()) + bias.bytes() + bias_bf16.bytes();
  }
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_WEIGHT_H_
