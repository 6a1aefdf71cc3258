// The part of Ops (ops.h) that prepares weights. All calls are complete on return, except FetchWeight, which is
// enqueued.
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

  // Packs rows.count matrices [out, taps, in]; the first gets the optional bias [out] f32 (host memory). dtype must be
  // one that the backend's WeightLayout stores. Fails with the first failure of rows.read, in row order, or with
  // ResourceExhausted if the weights do not fit. A dry backend reads nothing.
  virtual absl::StatusOr<std::vector<Weight>> PrepareWeights(const WeightRows& rows, const Tensor* bias,
                                                             DType dtype) = 0;
  // Packs one contiguous matrix [out, taps, in] or [out, in], f32 or bf16, from host memory.
  absl::StatusOr<Weight> PrepareWeight(const Tensor& matrix, const Tensor* bias, DType dtype);
  // Packs other rows into weights that PrepareWeights made from rows of this shape with `dtype`. Storage and bias stay
  // the same, so captured graphs remain valid. No enqueued work may still read the weights (Synchronize first). After
  // an error of rows.read they hold a mixture of old and new rows.
  virtual absl::Status RewriteWeights(const WeightRows& rows, DType dtype,
                                      absl::Span<WeightStorage* const> storage) = 0;

  // A low-rank product, factor · up · down, for rows [first, first + up.out) of a matrix. One matrix each, of one
  // dtype.
  struct RowsProduct {
    int64_t first = 0;
    WeightRows up, down;  // [rows, rank], [rank, in]
    float factor = 1;
  };

  // The arguments of one RewriteWeights call.
  struct Rewriting {
    WeightRows rows;
    DType dtype = DType::kF32;
    absl::Span<WeightStorage* const> storage;
    // Added to the rows: sums in float32, rounded once. Requires adds_products(), and one matrix of one tap.
    absl::Span<const RowsProduct> products = {};
    int64_t* bad_row = nullptr;  // with products: set to a row that is not finite with them, or else to -1
  };
  // Whether RewriteWeights adds products. Otherwise rows.read must return rows that include them.
  virtual bool adds_products() const { return false; }
  // Rewrites several weights, possibly in parallel: a small matrix has too few runs of rows for all threads.
  virtual absl::Status RewriteWeights(absl::Span<const Rewriting> many);

  // Moves a weight without a bias to pinned host memory and frees its device memory. Fails with ResourceExhausted if
  // there is no such memory. EvictWeight and FetchWeight need BackendTraits::evicts_weights; other backends CHECK-fail.
  virtual absl::Status EvictWeight(const Weight& w);
  // Enqueues the copy of an evicted weight into `memory` [w.bytes()] u8. Ops enqueued after this call may use the
  // weight until `memory` is overwritten.
  virtual void FetchWeight(const Weight& w, const Tensor& memory);
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_WEIGHT_OPS_H_
