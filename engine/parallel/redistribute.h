// How activations move between the ranks of a group. Everything here does nothing, or copies nothing, in a group of
// one, so a layer calls it without asking how the work is split. "seq" is the number of sequences (guidance passes)
// stacked in the rows.
#ifndef KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_
#define KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_

#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

// From this rank's tokens of all heads to all tokens of this rank's heads: one all-to-all over tokens().
//   parts: each [seq·rows, width] (queries, keys, values) -> [seq·rows·n, parts·width/n], part after part in the
//   columns.
// In a group of one with adjacent parts of one tensor the result is that tensor. Memory comes from `temp`. In a larger
// group the parts are spent: their memory may serve the exchange, or be the result's.
Tensor GatherTokens(Exec& exec, ArenaScope& temp, absl::Span<const Tensor> parts, int seq);
// A part that must outlive GatherTokens: itself in a group of one, else a copy in `temp`.
Tensor Kept(Exec& exec, ArenaScope& temp, const Tensor& part);

// Where the result of attention on gathered tokens goes: [seq·rows·n, width/n], or `local` itself in a group of one.
Tensor GatheredLike(Exec& exec, ArenaScope& temp, const Tensor& local);
// The way back, one all-to-all: gathered [seq·rows·n, width/n] -> local [seq·rows, width]. spent: what GatherTokens
// gave, of two parts or more, which nobody reads any more: its memory serves the exchange.
void ScatterTokens(Exec& exec, const Tensor& gathered, const Tensor& spent, int seq, Tensor local);

// local [seq·rows, width] of each rank of tokens() -> all [seq·rows·n, width] on every one.
void AllGatherTokens(Exec& exec, const Tensor& local, int seq, Tensor all);

// Video-to-audio attention is defined on this many equal runs of the video tokens, whatever the number of ranks
// (docs/model.md "Key chunks"); ChunksHere of them are this rank's. chunks [ChunksHere, …] of each rank of tokens() ->
// [kKeyChunks, …] on every one: in a group of one that tensor itself, else memory from `temp`.
inline constexpr int kKeyChunks = 8;
int ChunksHere(const Exec& exec);
Tensor GatherChunks(Exec& exec, ArenaScope& temp, const Tensor& chunks);

// Products of a w that is split by columns, summed over tensor(): out = Σ x · wᵀ, contiguous; and that sum added to a
// residual (Ops::MatmulThenNorms).
void MatmulReduced(Exec& exec, const Tensor& x, const Weight& w, Tensor out);
void MatmulReducedThenNorms(Exec& exec, const Tensor& x, const Weight& w, const ResidualUpdate& update);

// RMS norm over columns that span the ranks of tensor(), then rotation, in place on each tensor: one all-reduce of the
// sums of squares of all of them together. Every params.group is the tensor's width.
struct NormedTensor {
  Tensor x;
  NormRopeParams params;
};
void NormAcrossHeads(Exec& exec, absl::Span<const NormedTensor> tensors);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_
