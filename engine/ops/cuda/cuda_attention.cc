// Attention: by cuDNN if it has an engine and the plan pays off, otherwise as two products around a softmax. Attention
// in chunks, of few queries over many keys, has a kernel of our own.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/cuda/cudnn_calls.h"
#include "engine/ops/op_checks.h"
#include "kernels/split_attention.h"

namespace kinora {
namespace {

void* At(const Tensor& t, int64_t row) {
  return static_cast<char*>(t.raw()) + row * t.row_stride() * DTypeSize(t.dtype());
}

Fallback FallbackOf(Fallback::Reason reason, const AttentionExtents& e, const AttentionOptions& o, std::string why) {
  return {.op = Fallback::Op::kAttention,
          .reason = reason,
          .shape = absl::StrCat(o.batch, " x ", o.heads, " heads of ", e.head_width, ", ", e.queries, " queries, ",
                                e.key_end, " keys"),
          .values = o.batch * o.heads * e.queries * e.key_end,
          .why = std::move(why)};
}

}  // namespace

void CudaOps::Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                        Tensor out) {
  CheckAttention(q, k, v, options);
  CheckSameShape(q, out);
  if (q.rows() == 0) return;
  if (KeysThatCount(k, options) == 0) return Fill(0.0f, out);
  if (AttendByCudnn(q, k, v, options, out)) return;
  AttendByProducts(q, k, v, options, out);
}

bool CudaOps::AttendByCudnn(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                            const Tensor& out) {
  const AttentionExtents e = ExtentsOf(q, k, options);
  if (!IsForCudnn(q, k, v, options, out)) return false;
  const auto fall_back = [&](Fallback::Reason reason, const absl::Status& why) {
    const absl::Status taken = fallbacks_->Take(FallbackOf(reason, e, options, std::string(why.message())));
    if (!taken.ok()) stream_->Fail(taken);
    return !taken.ok();
  };
  if (!IsNarrow(q, options)) {
    return fall_back(Fallback::Reason::kRefused,
                     absl::UnimplementedError(absl::StrCat("heads wider than ", kMaxCudnnHeadWidth)));
  }
  if (!AreAligned(q, k, v, options, out)) return fall_back(Fallback::Reason::kAlignment, absl::OkStatus());
  const auto calls = CallsOf(q, k, v, options, out);
  absl::InlinedVector<CudnnPlans::Plan, kMaxBatch> plans;
  for (const AttentionCall& call : calls) {
    const absl::StatusOr<CudnnPlans::Plan> plan = cudnn_->For(call.shape);
    if (absl::IsUnimplemented(plan.status())) return fall_back(Fallback::Reason::kRefused, plan.status());
    if (!plan.ok()) stream_->Fail(plan.status());
    if (!plan.ok()) return true;
    plans.push_back(*plan);
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const BatchRun& run = calls[i].run;
    const int64_t query = run.first * e.queries, key = options.kv_batch[run.first] * e.keys;
    void* const operands[] = {At(q, query), At(k, key), At(v, key), At(out, query), options.bias.raw()};
    stream_->Enqueue("Attention", q, [&](cudaStream_t stream) {
      stream_->Keep(plans[i]);
      return plans[i]->Run(absl::MakeConstSpan(operands, options.bias.defined() ? 5 : 4), product_workspace_.data(),
                           stream);
    });
  }
  return true;
}

void CudaOps::AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                              Tensor out) {
  CheckAttention(q, k, v, options);
  const AttentionExtents e = ExtentsOf(q, k, options);
  const int64_t chunks = out.dim(0);
  KINORA_CHECK(e.head_width <= kMaxChunkedHeadWidth) << e.head_width;
  KINORA_CHECK(e.keys % chunks == 0) << e.keys << " keys in " << chunks << " chunks";
  KINORA_CHECK(out.contiguous() && out.elements() == chunks * q.rows() * options.heads * (e.head_width + 2))
      << out.shape().ToString();
  if (q.rows() == 0) return;
  kernels::SplitAttention attention{.q = View(q),
                                    .k = View(k),
                                    .v = View(v),
                                    .out = out.data<float>(),
                                    .batch = options.batch,
                                    .queries = e.queries,
                                    .keys = e.keys,
                                    .heads = options.heads,
                                    .kv_heads = e.kv_heads,
                                    .width = static_cast<int>(e.head_width),
                                    .chunks = static_cast<int>(chunks),
                                    .key_end = e.key_end,
                                    .scale = options.scale,
                                    .causal = options.causal,
                                    .window = WindowOf(options, e.queries)};
  for (int b = 0; b < options.batch; ++b) {
    attention.kv_batch |= static_cast<uint64_t>(options.kv_batch[b]) << (8 * b);
  }
  if (options.bias.defined()) {
    attention.bias = options.bias.data<float>();
    attention.bias_stride = options.bias.row_stride();
  }
  stream_->Enqueue("AttentionChunks", q,
                   [&](cudaStream_t stream) { return kernels::LaunchSplitAttention(attention, stream); });
}

namespace {

void Merge(CudaStream& stream, const char* op, const Tensor& chunks, const float* logits, const Tensor& out) {
  const int64_t heads = chunks.dim(2), width = chunks.dim(3) - 2;
  KINORA_CHECK(chunks.contiguous() && chunks.dim(1) == out.rows() && out.width() == heads * width)
      << chunks.shape().ToString();
  if (out.rows() == 0) return;
  const kernels::MergeSplits merge{.chunks = chunks.data<float>(),
                                   .logits = logits,
                                   .out = View(out),
                                   .rows = out.rows(),
                                   .count = static_cast<int>(chunks.dim(0)),
                                   .heads = static_cast<int>(heads),
                                   .width = static_cast<int>(width)};
  stream.Enqueue(op, chunks, [&](cudaStream_t handle) { return kernels::LaunchMergeSplits(merge, handle); });
}

}  // namespace

void CudaOps::MergeChunks(const Tensor& chunks, Tensor out) {
  Merge(*stream_, "MergeChunks", chunks, /*logits=*/nullptr, out);
}

void CudaOps::MergeChunksThenGateHeads(const Tensor& chunks, const Tensor& logits, Tensor out) {
  KINORA_CHECK(logits.rows() == out.rows() && logits.width() == chunks.dim(2)) << logits.shape().ToString();
  if (!logits.contiguous() || logits.dtype() != DType::kF32) return Ops::MergeChunksThenGateHeads(chunks, logits, out);
  Merge(*stream_, "MergeChunksThenGateHeads", chunks, logits.data<float>(), out);
}

}  // namespace kinora
