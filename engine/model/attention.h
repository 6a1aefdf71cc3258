// The attention module of the transformer (six per block) and of the connectors: RMS norm of q and k over all heads
// together, optional rotation, and an optional gate per head, 2·sigmoid(logits of the query side)
// (ltx_core/model/transformer/attention.py; diffusers LTX2Attention). Tensor ranks divide the heads. The pieces are
// public because self-, prompt and cross-modal attention combine them differently.
#ifndef KINORA_ENGINE_MODEL_ATTENTION_H_
#define KINORA_ENGINE_MODEL_ATTENTION_H_

#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

struct AttentionShape {
  int64_t query_width = 0;    // of the rows that queries come from, and of the result
  int64_t context_width = 0;  // of the rows that keys and values come from
  int64_t heads = 0;          // on all ranks together
  int64_t head_dim = 0;
  bool to_itself = false;  // self-attention: queries, keys and values come from the same rows
  bool gated = false;
  float norm_eps = 1e-6f;
  int64_t inner() const { return heads * head_dim; }
};

// Result of attention before the gates.
struct Attended {
  Tensor rows{};    // [rows, inner]; if `chunks` is defined, Finish merges the chunks into it
  Tensor chunks{};  // as in MergeChunks
  // Blocks from the ranks that computed them, and values in place of some rows. Finish copies both into `rows`.
  HeadBlocks parts{};
};

// Widths below are this rank's: inner = heads·head_dim / tensor ranks.
class Attention {
 public:
  // Reads to_q, to_k, to_v, to_out.0, q_norm, k_norm and, if gated, to_gate_logits under `weights`. Projections of the
  // same rows are one weight: q, k and v in self-attention, otherwise k and v.
  static absl::StatusOr<Attention> Load(WeightLoader weights, const AttentionShape& shape);

  int64_t inner() const { return heads_ * head_dim_; }
  int heads() const { return heads_; }
  int64_t head_dim() const { return head_dim_; }
  AttentionOptions options() const;  // heads and scale; one sequence

  // Projections without norm. Self-attention: x [rows, query_width] -> qkv [rows, 3·inner]. Otherwise: x -> q [rows,
  // inner], and context [rows, context_width] -> kv [rows, 2·inner].
  void QueriesKeysValues(Exec& exec, const Tensor& x, Tensor qkv) const { exec.ops.Matmul(x, joined_, {}, qkv); }
  void Queries(Exec& exec, const Tensor& x, Tensor q) const { exec.ops.Matmul(x, query_, {}, q); }
  void KeysValues(Exec& exec, const Tensor& context, Tensor kv) const { exec.ops.Matmul(context, joined_, {}, kv); }
  // Returns the index-th projection in `joined` (qkv or kv).
  Tensor Part(const Tensor& joined, int index) const { return joined.Columns(index * inner(), (index + 1) * inner()); }
  // Norm and rotation, in place. Skips undefined tensors, and the rotation if a table is undefined.
  void Normalize(Exec& exec, Tensor q, const Rope& q_rope, Tensor k, const Rope& k_rope) const;
  // Both, and the exchange of tokens for heads (NormAndGatherTokens): qkv [batch·rows, 3·inner] of self-attention.
  Tensor NormalizeAndGather(Exec& exec, const Tensor& qkv, const Rope& rope, int batch) const;
  // Gates `attended` in place by x [rows, query_width], and adds to_out(attended) to the residual.
  void Finish(Exec& exec, const Tensor& x, const Attended& attended, const ResidualUpdate& update) const;

  // All of the above: self-attention of `batch` whole sequences on this rank. x: [batch·rows, width].
  void ForwardSelf(Exec& exec, const Tensor& x, int batch, const Rope& rope, const ResidualUpdate& update) const;

 private:
  NormRopeParams NormParams(const Tensor& weight, const Rope& rope) const;
  // Completes attended.rows from chunks or parts, and gates it if there are gates.
  void Gate(Exec& exec, const Tensor& x, const Attended& attended) const;

  Weight query_;   // unused in self-attention
  Weight joined_;  // rows of [queries,] keys and values
  Weight out_, gate_;
  Parameter q_norm_, k_norm_;
  int heads_ = 0;
  int64_t head_dim_ = 0;
  float norm_eps_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_ATTENTION_H_
