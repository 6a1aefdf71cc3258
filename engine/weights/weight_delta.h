// What is added to a tensor of a checkpoint whenever it is read: the sum of low-rank products, Σ strength · up · down.
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

// One product for a tensor [out, in]: up [out, rank], down [rank, in], where they lie in a file that stays open.
struct LowRankTerm {
  TensorSource up, down;
  float strength = 1;

  int64_t rows() const { return up.rows(); }
  int64_t columns() const { return down.columns(); }
};

// By the tensors' canonical names, "transformer.transformer_blocks.7.attn1.to_q.weight".
using WeightDeltas = std::map<std::string, std::vector<LowRankTerm>, std::less<>>;

// The terms of one tensor, read. Summed in float32, term by term in the order of the rank, then added.
class LowRankDelta {
 public:
  // terms: at least one, all of one shape. I/O; ResourceExhausted.
  static absl::StatusOr<LowRankDelta> Read(absl::Span<const LowRankTerm> terms);
  // values [block.rows, block.columns] f32 += this block of the delta. Called from several threads at once.
  void AddTo(const Block& block, float* values) const;

 private:
  LowRankDelta(int64_t rank, int64_t columns, Buffer up, Buffer down)
      : rank_(rank), columns_(columns), up_(std::move(up)), down_(std::move(down)) {}

  const int64_t rank_, columns_;  // rank: of all terms together
  Buffer up_, down_;              // f32 [out, rank], strengths in it; [rank, in]
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_WEIGHT_DELTA_H_
