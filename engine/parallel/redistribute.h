// Moves activations between the ranks of a group. In a group of one these functions do nothing or copy locally, so a
// layer calls them however the work is split. "seq" is the number of sequences (guidance passes) stacked in the rows.
#ifndef KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_
#define KINORA_ENGINE_PARALLEL_REDISTRIBUTE_H_

#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Norms of q and k over columns that may span the ranks of tensor(), and their rotation (NormAcrossHeads); then
// exchanges this rank's tokens of all heads for all tokens of this rank's heads, by one all-to-all over tokens(). The
// op that rotates writes what is sent, so that nothing is packed or unpacked.
//   qkv: queries, keys and values, [seq·rows, 3·width], contiguous -> [seq·rows·n, 3·width/n], in the memory of qkv.
Tensor NormAndGatherTokens(Exec& exec, const Tensor& qkv, const NormRopeParams& q, const NormRopeParams& k, int seq);
// Returns part of qkv in memory from `temp`, which NormAndGatherTokens does not overwrite.
Tensor Kept(Exec& exec, ArenaScope& temp, const Tensor& part);
// Reverses the exchange, by one all-to-all: gathered [seq·rows·n, width/n], contiguous -> blocks [seq, n, rows,
// width/n] of [seq·rows, width], which Ops::JoinBlocksThenGateHeads reads. spent: NormAndGatherTokens' result, no
// longer read: the blocks take its memory.
Tensor ScatterTokens(Exec& exec, const Tensor& gathered, const Tensor& spent, int seq);

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
