#include "engine/model/attention.h"

#include <cmath>

#include "absl/container/inlined_vector.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/redistribute.h"

namespace kinora {

absl::StatusOr<Attention> Attention::Load(WeightLoader weights, const AttentionShape& shape) {
  Attention a;
  const int64_t inner = shape.inner();
  const WeightSpec from_query{.out = inner, .in = shape.query_width, .split = Split::kRows};
  const WeightSpec from_context{.out = inner, .in = shape.context_width, .split = Split::kRows};
  if (shape.to_itself) {
    KINORA_CHECK_EQ(shape.query_width, shape.context_width);
    KINORA_ASSIGN_OR_RETURN(a.joined_, weights.LoadWeight({"to_q", "to_k", "to_v"}, from_query));
  } else {
    KINORA_ASSIGN_OR_RETURN(a.query_, weights.LoadWeight({"to_q"}, from_query));
    KINORA_ASSIGN_OR_RETURN(a.joined_, weights.LoadWeight({"to_k", "to_v"}, from_context));
  }
  KINORA_ASSIGN_OR_RETURN(
      a.out_, weights.LoadWeight({"to_out.0"}, {.out = shape.query_width, .in = inner, .split = Split::kColumns}));
  KINORA_ASSIGN_OR_RETURN(a.q_norm_, weights.LoadTensor("q_norm.weight", {inner}, {.split = Split::kRows}));
  KINORA_ASSIGN_OR_RETURN(a.k_norm_, weights.LoadTensor("k_norm.weight", {inner}, {.split = Split::kRows}));
  if (shape.gated) {
    KINORA_ASSIGN_OR_RETURN(
        a.gate_,
        weights.LoadWeight({"to_gate_logits"}, {.out = shape.heads, .in = shape.query_width, .split = Split::kRows}));
  }
  a.head_dim_ = shape.head_dim;
  a.heads_ = static_cast<int>(shape.heads / weights.mesh().tensor().size());
  a.norm_eps_ = shape.norm_eps;
  return a;
}

AttentionOptions Attention::options() const {
  return {.heads = heads_, .scale = 1.0f / std::sqrt(static_cast<float>(head_dim_))};
}

NormRopeParams Attention::NormParams(const Tensor& weight, const Rope& rope) const {
  return {.weight = weight, .eps = norm_eps_, .group = inner(), .head_width = head_dim_, .rope = rope};
}

void Attention::Normalize(Exec& exec, Tensor q, const Rope& q_rope, Tensor k, const Rope& k_rope) const {
  absl::InlinedVector<NormedTensor, 2> tensors;
  if (q.defined()) tensors.push_back({q, NormParams(q_norm_, q_rope)});
  if (k.defined()) tensors.push_back({k, NormParams(k_norm_, k_rope)});
  NormAcrossHeads(exec, tensors);
}

Tensor Attention::NormalizeAndGather(Exec& exec, const Tensor& qkv, const Rope& rope, int batch) const {
  return NormAndGatherTokens(exec, qkv, NormParams(q_norm_, rope), NormParams(k_norm_, rope), batch);
}

void Attention::Gate(Exec& exec, const Tensor& x, const Attended& attended) const {
  ArenaScope temp(exec.arena);
  const HeadBlocks& parts = attended.parts;
  Tensor logits;
  if (gate_.out() > 0) {
    logits = temp.Alloc(DType::kF32, {x.rows(), gate_.out()});
    exec.ops.Matmul(x, gate_, {}, logits);
  }
  if (parts.blocks.defined()) {
    exec.ops.JoinBlocksThenGateHeads(parts, logits.defined() ? &logits : nullptr, attended.rows);
  } else if (!logits.defined()) {
    if (attended.chunks.defined()) exec.ops.MergeChunks(attended.chunks, attended.rows);
    if (parts.values.defined()) {
      const int64_t first = parts.first_value;
      exec.ops.stream().Copy(parts.values, attended.rows.Rows(first, first + parts.values.rows()));
    }
  } else if (attended.chunks.defined()) {
    exec.ops.MergeChunksThenGateHeads(attended.chunks, logits, attended.rows);
  } else if (parts.values.defined()) {
    exec.ops.ReplaceRowsThenGateHeads(parts.values, parts.first_value, logits, attended.rows);
  } else {
    exec.ops.GateHeads(logits, attended.rows);
  }
}

void Attention::Finish(Exec& exec, const Tensor& x, const Attended& attended, const ResidualUpdate& update) const {
  Gate(exec, x, attended);
  MatmulReducedThenNorms(exec, attended.rows, out_, update);
}

void Attention::ForwardSelf(Exec& exec, const Tensor& x, int batch, const Rope& rope,
                            const ResidualUpdate& update) const {
  ArenaScope temp(exec.arena);
  Tensor qkv = temp.Alloc(exec.dtype, {x.rows(), 3 * inner()});
  QueriesKeysValues(exec, x, qkv);
  const Tensor q = Part(qkv, 0), k = Part(qkv, 1), v = Part(qkv, 2);
  Normalize(exec, q, rope, k, rope);
  AttentionOptions attention = options();
  attention.batch = attention.kv_batches = batch;
  for (int i = 0; i < batch; ++i) attention.kv_batch[i] = static_cast<int8_t>(i);
  Tensor attended = temp.Alloc(exec.dtype, {x.rows(), inner()});
  exec.ops.Attention(q, k, v, attention, attended);
  Finish(exec, x, {.rows = attended}, update);
}

}  // namespace kinora
