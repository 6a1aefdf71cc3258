// Moves activations between the ranks of a group. In a group of one these functions do nothing or copy locally, so a
// layer calls them however the work is split. "seq" is the number of sequences (guidance passes) stacked in the rows.
#ifndef KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_
#define KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_

#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Exchanges this rank's tokens of all heads for all tokens of this rank's heads, by one all-to-all over tokens().
//   parts: each [seq·rows, width] (queries, keys, values) -> [seq·rows·n, parts·width/n], part after part in the
//   columns.
// In a group of one, adjacent parts of one tensor are returned as that tensor. Memory comes from `temp`. In a larger
// group the parts are consumed: the exchange or the result may use their memory.
Tensor GatherTokens(Exec& exec, ArenaScope& temp, absl::Span<const Tensor> parts, int seq);
// Returns a part that outlives GatherTokens: itself in a group of one, else a copy in `temp`.
Tensor Kept(Exec& exec, ArenaScope& temp, const Tensor& part);

// Returns the tensor for the result of attention on gathered tokens: [seq·rows·n, width/n], or `local` itself in a
// group of one.
Tensor GatheredLike(Exec& exec, ArenaScope& temp, const Tensor& local);
// Reverses GatherTokens, by one all-to-all: gathered [seq·rows·n, width/n] -> local [seq·rows, width]. spent:
// GatherTokens' result of two parts or more, no longer read: its memory serves the exchange.
void ScatterTokens(Exec& exec, const Tensor& gathered, const Tensor& spent, int seq, Tensor local);

// local [seq·rows, width] of each rank of tokens() -> all [seq·rows·n, width] on every rank.
void AllGatherTokens(Exec& exec, const Tensor& local, int seq, Tensor all);

// Video-to-audio attention is defined on this many equal runs of the video tokens, whatever the number of ranks
// (docs/model.md "Key chunks"); this rank holds ChunksHere of them. chunks [ChunksHere, …] of each rank of tokens()
// -> [kKeyChunks, …] on every rank: the same tensor in a group of one, else memory from `temp`.
inline constexpr int kKeyChunks = 8;
int ChunksHere(const Exec& exec);
Tensor GatherChunks(Exec& exec, ArenaScope& temp, const Tensor& chunks);

// Multiplies by a w that is split by columns and sums over tensor(): out = Σ x · wᵀ, contiguous. The second
// function adds that sum to a residual (Ops::MatmulThenNorms).
void MatmulReduced(Exec& exec, const Tensor& x, const Weight& w, Tensor out);
void MatmulReducedThenNorms(Exec& exec, const Tensor& x, const Weight& w, const ResidualUpdate& update);

// RMS norm over columns that span the ranks of tensor(), then rotation, in place on each tensor, with one all-reduce
// for the sums of squares of all tensors. Every params.group must be the tensor's width.
struct NormedTensor {
  Tensor x;
  NormRopeParams params;
};
void NormAcrossHeads(Exec& exec, absl::Span<const NormedTensor> tensors);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_
