// Attention: by cuDNN if it has an engine and the plan pays off, otherwise as two products around a softmax. Attention
// in chunks, of few queries over many keys, has a kernel of our own.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/ops/attention_runs.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/split_attention.h"

namespace kinora {
namespace {

// Building a plan takes 0.7 s. The text encoder's attention is causal, and every prompt has another length: below this
// many queries, the products of one prompt take less time than its plan.
constexpr int64_t kLeastCausalQueries = 2048;

void* At(const Tensor& t, int64_t row) {
  return static_cast<char*>(t.raw()) + row * t.row_stride() * DTypeSize(t.dtype());
}

struct Extents {
  int64_t queries, keys, key_end, head_width;
  int kv_heads;
};

Extents ExtentsOf(const Tensor& q, const Tensor& k, const AttentionOptions& o) {
  return {.queries = q.rows() / o.batch,
          .keys = k.rows() / o.kv_batches,
          .key_end = KeysThatCount(k, o),
          .head_width = q.width() / o.heads,
          .kv_heads = o.kv_heads > 0 ? o.kv_heads : o.heads};
}

// Returns 0, no window, if the window covers every key before a query.
int64_t WindowOf(const AttentionOptions& o, int64_t queries) { return o.causal && o.window < queries ? o.window : 0; }

// The shape of one call of cuDNN for a run of batches.
CudnnAttention ShapeOf(const BatchRun& run, const Extents& e, const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionOptions& o, const Tensor& out) {
  const bool stacked = run.stacked();
  const int64_t queries = stacked ? run.count * e.queries : e.queries;
  const auto strides = [&](const Tensor& t, int64_t batch_rows) {
    return HeadStrides{.batch = batch_rows * t.row_stride(), .head = e.head_width, .row = t.row_stride()};
  };
  const int64_t kv_rows = std::max(1, run.step) * e.keys;
  return {.batch = stacked ? 1 : run.count,
          .heads = o.heads,
          .kv_heads = e.kv_heads,
          .queries = queries,
          .keys = e.key_end,
          .head_width = e.head_width,
          .q = strides(q, queries),
          .k = strides(k, kv_rows),
          .v = strides(v, kv_rows),
          .out = strides(out, queries),
          .scale = o.scale,
          .causal = o.causal,
          .window = WindowOf(o, e.queries),
          .bias = o.bias.defined(),
          .bias_stride = o.bias.defined() ? o.bias.row_stride() : 0};
}

// Whether cuDNN should compute it: bf16, and enough queries for a plan.
bool IsForCudnn(const Extents& e, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o,
                const Tensor& out) {
  for (const Tensor* t : {&q, &k, &v, &out}) {
    if (t->dtype() != DType::kBF16) return false;
  }
  if (!o.causal) return true;
  const int64_t window = WindowOf(o, e.queries);
  const bool all_see = window == 0 || e.queries < e.key_end + window;  // the last query still sees the last key
  return e.queries >= kLeastCausalQueries && all_see;
}

// Whether cuDNN accepts the operands' addresses and strides.
bool AreAligned(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o, const Tensor& out) {
  for (const Tensor* t : {&q, &k, &v, &out, &o.bias}) {
    if (reinterpret_cast<uintptr_t>(t->raw()) % 16 != 0) return false;
  }
  return q.row_stride() % 8 == 0 && k.row_stride() % 8 == 0 && v.row_stride() % 8 == 0 && out.row_stride() % 8 == 0;
}

Fallback FallbackOf(Fallback::Reason reason, const Extents& e, const AttentionOptions& o, std::string why) {
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
  const Extents e = ExtentsOf(q, k, options);
  if (!IsForCudnn(e, q, k, v, options, out)) return false;
  const auto fall_back = [&](Fallback::Reason reason, const absl::Status& why) {
    const absl::Status taken = fallbacks_->Take(FallbackOf(reason, e, options, std::string(why.message())));
    if (!taken.ok()) stream_->Fail(taken);
    return !taken.ok();
  };
  if (!AreAligned(q, k, v, options, out)) return fall_back(Fallback::Reason::kAlignment, absl::OkStatus());
  struct Call {
    CudnnPlans::Plan plan;
    BatchRun run;
  };
  absl::InlinedVector<Call, kMaxBatch> calls;
  for (const BatchRun& run : BatchRuns(options)) {
    const absl::StatusOr<CudnnPlans::Plan> plan = cudnn_->For(ShapeOf(run, e, q, k, v, options, out));
    if (absl::IsUnimplemented(plan.status())) return fall_back(Fallback::Reason::kRefused, plan.status());
    if (!plan.ok()) stream_->Fail(plan.status());
    if (!plan.ok()) return true;
    calls.push_back({*plan, run});
  }
  for (const auto& [plan, run] : calls) {
    const int64_t query = run.first * e.queries, key = options.kv_batch[run.first] * e.keys;
    void* const operands[] = {At(q, query), At(k, key), At(v, key), At(out, query), options.bias.raw()};
    stream_->Enqueue("Attention", q, [&, &plan = plan](cudaStream_t stream) {
      stream_->Keep(plan);
      return plan->Run(absl::MakeConstSpan(operands, options.bias.defined() ? 5 : 4), product_workspace_.data(),
                       stream);
    });
  }
  return true;
}

void CudaOps::AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                              Tensor out) {
  CheckAttention(q, k, v, options);
  const Extents e = ExtentsOf(q, k, options);
  const int64_t chunks = out.dim(0);
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
