// The sum of low-rank products, Σ strength · up · down, that is added to a tensor of a checkpoint whenever it is
// read.
#ifndef KINORA_ENGINE_WEIGHTS_WEIGHT_DELTA_H_
#define KINORA_ENGINE_WEIGHTS_WEIGHT_DELTA_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/tensor/buffer.h"
#include "engine/weights/tensor_source.h"

namespace kinora {

// One product for a tensor [out, in]: up [out, rank], down [rank, in]. Their file must stay open.
struct LowRankTerm {
  TensorSource up, down;
  float strength = 1;

  int64_t rows() const { return up.rows(); }
  int64_t columns() const { return down.columns(); }
};

// By canonical name of the tensor, "transformer.transformer_blocks.7.attn1.to_q.weight".
using WeightDeltas = std::map<std::string, std::vector<LowRankTerm>, std::less<>>;

// The terms of one tensor, with their factors in memory. Sums in float32, term by term in the order of the rank, by the
// CPU's matrix kernel, then adds the sum.
class LowRankDelta {
 public:
  // Reads the factors. terms: at least one, all of one shape. Fails with I/O errors or ResourceExhausted.
  static absl::StatusOr<LowRankDelta> Read(absl::Span<const LowRankTerm> terms);
  // Adds this block of the delta to values [block.rows, block.columns], f32. Thread-safe.
  void AddTo(const Block& block, float* values) const;

 private:
  LowRankDelta(int64_t rank, int64_t columns, Buffer up, Buffer down)
      : rank_(rank), columns_(columns), up_(std::move(up)), down_(std::move(down)) {}

  const int64_t rank_, columns_;  // rank_: the sum over all terms
  Buffer up_, down_;              // f32 [out, rank], including strengths; [rank, in]
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_WEIGHT_DELTA_H_
