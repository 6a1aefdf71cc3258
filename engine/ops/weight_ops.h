// The part of Ops (ops.h) that holds weights. Outside the stream, but for FetchWeight: done on return.
#ifndef KINORA_ENGINE_OPS_WEIGHT_OPS_H_
#define KINORA_ENGINE_OPS_WEIGHT_OPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ops/weight.h"

namespace kinora {

class WeightOps {
 public:
  virtual ~WeightOps() = default;

  // Packs rows.count matrices [out, taps, in]; the first gets the optional bias [out] f32 (host memory). dtype: one
  // that the backend's WeightLayout stores. The first failure of rows.read, by row; ResourceExhausted if it does not
  // fit. A dry backend reads nothing.
  virtual absl::StatusOr<std::vector<Weight>> PrepareWeights(const WeightRows& rows, const Tensor* bias,
                                                             DType dtype) = 0;
  // One contiguous matrix [out, taps, in] or [out, in], f32 or bf16, that lies in host memory.
  absl::StatusOr<Weight> PrepareWeight(const Tensor& matrix, const Tensor* bias, DType dtype);
  // Packs other rows into weights that PrepareWeights made of `rows` with `dtype`: same storage, same bias, so captured
  // graphs go on being valid. No enqueued work may still read them (Synchronize first). After an error, that of
  // rows.read, they hold a mixture.
  virtual absl::Status RewriteWeights(const WeightRows& rows, DType dtype,
                                      absl::Span<WeightStorage* const> storage) = 0;

  // One such packing of several.
  struct Rewriting {
    WeightRows rows;
    DType dtype = DType::kF32;
    absl::Span<WeightStorage* const> storage;
  };
  // The same for many, whose runs of rows may go side by side: small matrices have too few for all threads.
  virtual absl::Status RewriteWeights(absl::Span<const Rewriting> many);

  // Moves a weight without a bias to pinned host memory; the device holds nothing of it any more. Done on return.
  // ResourceExhausted: no such memory. Both ops where BackendTraits::evicts_weights; they CHECK-fail elsewhere.
  virtual absl::Status EvictWeight(const Weight& w);
  // Enqueues the copy of an evicted weight into `memory` [w.bytes()] u8: until that is written to, ops behind this call
  // may use the weight.
  virtual void FetchWeight(const Weight& w, const Tensor& memory);
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_WEIGHT_OPS_H_
