// Attention in blocks with a running softmax (Milakov & Gimelshein 2018; Dao et al. 2022): no queries × keys matrix
// exists. Both products have queries as columns: logitsᵀ = k qᵀ and outᵀ += vᵀ weightsᵀ, so the softmax runs
// down the lanes of a panel and its weights need no packing. Keys are processed in fixed blocks from the first one on,
// so a row's sums do not depend on which queries share its panel or task.
#include <algorithm>
#include <utility>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_work.h"

namespace kinora {

struct CpuOps::AttentionPlan {
  Tensor q, k, v, out;
  AttentionOptions options;
  cpu::Type type;
  int64_t head_width, queries, keys;  // per sequence
  int64_t key_end;                    // keys that count
  int64_t chunks = 0, chunk_keys;     // chunks 0: one run of keys, normalised
  int64_t query_rows, query_blocks;   // rows per task; blocks per sequence
  int64_t tasks() const { return std::max<int64_t>(1, chunks) * options.batch * options.heads * query_blocks; }
};

namespace {

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

Tensor HeadColumns(const Tensor& t, int64_t row, int64_t head, int64_t width) {
  return Tensor(t.dtype(), {1, width}, At(t, row) + head * width * DTypeSize(t.dtype()), t.row_stride());
}

template <typename Plan>
void FillPlan(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, Plan& plan) {
  const int64_t heads = options.heads, kv_heads = options.kv_heads > 0 ? options.kv_heads : heads;
  KINORA_CHECK(heads > 0 && heads % kv_heads == 0 && q.width() % heads == 0) << heads << " heads, " << kv_heads;
  plan.q = q;
  plan.k = k;
  plan.v = v;
  plan.options = options;
  plan.options.kv_heads = static_cast<int>(kv_heads);
  plan.head_width = q.width() / heads;
  KINORA_CHECK(plan.head_width <= kMaxHeadWidth && plan.head_width % 2 == 0) << "head width " << plan.head_width;
  KINORA_CHECK(k.width() == kv_heads * plan.head_width && v.width() == k.width() && v.rows() == k.rows());
  KINORA_CHECK(options.batch >= 1 && options.batch <= kMaxBatch && q.rows() % options.batch == 0) << options.batch;
  KINORA_CHECK(options.kv_batches >= 1 && k.rows() % options.kv_batches == 0) << options.kv_batches;
  KINORA_CHECK(options.scale > 0) << options.scale;  // so that the greatest product gives the greatest logit
  plan.queries = q.rows() / options.batch;
  plan.keys = k.rows() / options.kv_batches;
  plan.key_end = options.key_length >= 0 ? std::min(options.key_length, plan.keys) : plan.keys;
  // bf16 products only where everything is bf16; a mixture is computed in float32.
  const bool all_bf16 = q.dtype() == DType::kBF16 && k.dtype() == DType::kBF16 && v.dtype() == DType::kBF16;
  plan.type = all_bf16 ? cpu::kBfloat16 : cpu::kFloat32;
  if (options.bias.defined()) {
    KINORA_CHECK(options.bias.rows() == plan.queries && options.bias.width() == plan.keys)
        << options.bias.shape().ToString();
  }
}

// Divides the queries: as many rows per task as fit, or fewer if that would leave threads without work.
template <typename Plan>
void CutQueries(int64_t panel_columns, int threads, Plan& plan) {
  const int64_t row_bytes = plan.head_width * (plan.type == cpu::kFloat32 ? 4 : 2);
  const int64_t most = std::min(kMaxQueryRows, kPackedQueryBytes / row_bytes) / panel_columns * panel_columns;
  const int64_t fewest = 4 * panel_columns;  // with fewer, packing keys and values costs more than another thread saves
  const int64_t others = std::max<int64_t>(1, plan.chunks) * plan.options.batch * plan.options.heads;
  const int64_t wanted = threads == 1 ? 1 : (2 * threads + others - 1) / others;
  const int64_t blocks = std::max((plan.queries + most - 1) / most, std::min(wanted, plan.queries / fewest));
  plan.query_rows =
      RoundUp((plan.queries + std::max<int64_t>(1, blocks) - 1) / std::max<int64_t>(1, blocks), panel_columns);
  plan.query_blocks = plan.queries == 0 ? 0 : (plan.queries + plan.query_rows - 1) / plan.query_rows;
}

}  // namespace

// One head of one sequence: a run of queries against a run of keys, on one thread.
class CpuOps::AttentionTask {
 public:
  AttentionTask(const cpu::Kernels& kernels, const AttentionPlan& plan, int64_t task, void* memory)
      : kernels_(kernels), plan_(plan), columns_(kernels.panel_columns), d_(plan.head_width) {
    first_query_ = task % plan.query_blocks * plan.query_rows;
    rows_ = std::min(plan.query_rows, plan.queries - first_query_);
    task /= plan.query_blocks;
    head_ = task % plan.options.heads;
    batch_ = task / plan.options.heads % plan.options.batch;
    chunk_ = task / plan.options.heads / plan.options.batch;
    element_ = plan.type == cpu::kFloat32 ? 4 : 2;
    char* at = static_cast<char*>(memory);
    const auto take = [&at](int64_t bytes) { return std::exchange(at, at + bytes); };
    queries_ = take(kPackedQueryBytes);
    keys_ = take(kPackedKeyBytes);
    values_ = take(kPackedValueBytes);
    logits_ = reinterpret_cast<float*>(take(kLogitBytes));
    sums_ = reinterpret_cast<float*>(take(kAttentionSumBytes));
    maximum_ = reinterpret_cast<float*>(take(kMaxQueryRows * 4));
    denominator_ = reinterpret_cast<float*>(take(kMaxQueryRows * 4));
    pointers_ = reinterpret_cast<const void**>(take(kKeyBlock * 8));
  }

  void Run() {
    const AttentionOptions& o = plan_.options;
    kernels_.pack_columns(View(HeadColumns(plan_.q, batch_ * plan_.queries + first_query_, head_, d_)), rows_, d_,
                          plan_.type, queries_);
    std::fill_n(maximum_, RoundUp(rows_, columns_), cpu::kNoLogit);
    std::fill_n(denominator_, RoundUp(rows_, columns_), 0.0f);
    const int64_t begin = chunk_ * plan_.chunk_keys, end = std::min(plan_.key_end, begin + plan_.chunk_keys);
    const int64_t block = d_ <= kFullBlockWidth ? kKeyBlock : kKeyBlock / 2;
    for (int64_t key = begin; key < end; key += block) {
      const int64_t keys = std::min(block, end - key);
      if (!Sees(first_query_, rows_, key, keys)) continue;
      PackKeys(o.kv_batch[batch_] * plan_.keys + key, keys);
      for (int64_t row = 0; row < rows_; row += columns_) {
        const int64_t queries = std::min(columns_, rows_ - row);
        if (Sees(first_query_ + row, queries, key, keys)) Attend(row, queries, key, keys);
      }
    }
    for (int64_t row = 0; row < rows_; row += columns_) Finish(row, std::min(columns_, rows_ - row));
  }

 private:
  // Whether any of the queries may see any of the keys.
  bool Sees(int64_t query, int64_t queries, int64_t key, int64_t keys) const {
    const AttentionOptions& o = plan_.options;
    if (!o.causal) return true;
    return key < query + queries && (o.window == 0 || key + keys > query - o.window + 1);
  }

  void PackKeys(int64_t kv_row, int64_t keys) {
    const int64_t kv_head = head_ / (plan_.options.heads / plan_.options.kv_heads);
    for (int64_t i = 0; i < keys; ++i) pointers_[i] = At(plan_.k, kv_row + i);
    kernels_.pack_rows(pointers_, KernelType(plan_.k.dtype()), keys, kv_head * d_, d_, 0, d_, plan_.type, keys_);
    kernels_.pack_values(View(HeadColumns(plan_.v, kv_row, kv_head, d_)), keys, d_, plan_.type, values_);
  }

  // A panel of queries from `row` of the task on, against the packed keys.
  void Attend(int64_t row, int64_t queries, int64_t key, int64_t keys) {
    const AttentionOptions& o = plan_.options;
    const int64_t query = first_query_ + row;
    float* sums = sums_ + row * d_;
    const bool fresh = !std::exchange(attended_[row / columns_], true);
    kernels_.multiply(keys_, d_, queries_ + row * d_ * element_, 0, plan_.type, keys, d_, queries, logits_, columns_,
                      true);
    cpu::SoftmaxArgs softmax{.s = logits_,
                             .type = plan_.type,
                             .keys = keys,
                             .queries = queries,
                             .scale = o.scale,
                             .maximum = maximum_ + row,
                             .denominator = denominator_ + row,
                             .sums = fresh ? nullptr : sums,
                             .width = d_};
    int32_t first[kMaxPanelColumns], last[kMaxPanelColumns];
    if (o.causal && (key + keys > query + 1 || (o.window > 0 && key <= query + queries - 1 - o.window))) {
      for (int64_t i = 0; i < columns_; ++i) {
        first[i] = o.window > 0 ? static_cast<int32_t>(std::max<int64_t>(0, query + i - o.window + 1 - key)) : 0;
        last[i] = static_cast<int32_t>(std::clamp<int64_t>(query + i + 1 - key, 0, keys));
      }
      softmax.first_key = first;
      softmax.last_key = last;
    }
    if (o.bias.defined()) {
      softmax.bias = o.bias.data<float>() + query * o.bias.row_stride() + key;
      softmax.bias_stride = o.bias.row_stride();
    }
    kernels_.softmax(softmax);
    kernels_.multiply(values_, RoundUp(keys, 2), logits_, 0, plan_.type, d_, keys, queries, sums, columns_, fresh);
  }

  void Finish(int64_t row, int64_t queries) {
    float* sums = sums_ + row * d_;
    float factor[kMaxPanelColumns];
    for (int64_t i = 0; i < queries; ++i) {
      const float denominator = denominator_[row + i];
      factor[i] = plan_.chunks > 0 ? 1.0f : denominator > 0 ? 1.0f / denominator : 0.0f;
    }
    std::fill(factor + queries, factor + columns_, 0.0f);
    if (!attended_[row / columns_]) std::fill_n(sums, d_ * columns_, 0.0f);
    const int64_t q_row = batch_ * plan_.queries + first_query_ + row;
    if (plan_.chunks == 0) {
      kernels_.unpack_columns(sums, d_, queries, factor, View(HeadColumns(plan_.out, q_row, head_, d_)));
      return;
    }
    const int64_t stride = plan_.options.heads * (d_ + 2);
    float* out = plan_.out.data<float>() + ((chunk_ * plan_.q.rows() + q_row) * plan_.options.heads + head_) * (d_ + 2);
    kernels_.unpack_columns(sums, d_, queries, factor, {out, stride, cpu::kFloat32});
    for (int64_t i = 0; i < queries; ++i) {
      out[i * stride + d_] = maximum_[row + i];
      out[i * stride + d_ + 1] = denominator_[row + i];
    }
  }

  const cpu::Kernels& kernels_;
  const AttentionPlan& plan_;
  const int64_t columns_, d_;
  int64_t first_query_, rows_, head_, batch_, chunk_, element_;
  char *queries_, *keys_, *values_;  // packed
  float *logits_, *sums_;            // [keys, columns]; panels one after another, each [d, columns]
  float *maximum_, *denominator_;    // per query
  const void** pointers_;
  bool attended_[kMaxPanels] = {};  // which panels have sums
};

void CpuOps::Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, Tensor out) {
  AttentionPlan plan;
  FillPlan(q, k, v, options, plan);
  KINORA_CHECK(out.rows() == q.rows() && out.width() == q.width()) << out.shape().ToString();
  plan.out = out;
  plan.chunk_keys = plan.keys;
  CutQueries(kernels_.panel_columns, pool_.threads(), plan);
  stream_.Enqueue([this, plan] { RunAttention(plan); }, "Attention", WorkOfAttention(q, k, options));
}

void CpuOps::AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                             Tensor out) {
  AttentionPlan plan;
  FillPlan(q, k, v, options, plan);
  plan.chunks = out.dim(0);
  KINORA_CHECK(plan.head_width <= kMaxChunkedHeadWidth) << plan.head_width;
  KINORA_CHECK(plan.keys % plan.chunks == 0) << plan.keys << " keys in " << plan.chunks << " chunks";
  KINORA_CHECK(out.contiguous() && out.elements() == plan.chunks * q.rows() * options.heads * (plan.head_width + 2))
      << out.shape().ToString();
  plan.out = out;
  plan.chunk_keys = plan.keys / plan.chunks;
  CutQueries(kernels_.panel_columns, pool_.threads(), plan);
  stream_.Enqueue([this, plan] { RunAttention(plan); }, "AttentionChunks", WorkOfAttention(q, k, options));
}

void CpuOps::RunAttention(const AttentionPlan& plan) {
  const auto run = [&](int64_t task, int thread) {
    AttentionTask(kernels_, plan, task, workspace_[thread].data()).Run();
  };
  if (plan.queries * plan.keys * plan.head_width * plan.options.heads < 1 << 18) {  // not worth waking threads
    for (int64_t task = 0; task < plan.tasks(); ++task) run(task, 0);
    return;
  }
  pool_.Run(plan.tasks(), run);
}

void CpuOps::MergeChunks(const Tensor& chunks, Tensor out) {
  const int64_t count = chunks.dim(0), heads = chunks.dim(2), d = chunks.dim(3) - 2, rows = out.rows();
  KINORA_CHECK(chunks.contiguous() && chunks.dim(1) == rows && out.width() == heads * d) << chunks.shape().ToString();
  stream_.Enqueue([this, chunks, out, count, heads, d, rows] {
    ForRows(rows, count * heads * d * 4, [&](int64_t begin, int64_t end) {
      float merged[kMaxChunkedHeadWidth];
      for (int64_t index = begin * heads; index < end * heads; ++index) {
        const auto part = [&](int64_t c) { return chunks.data<float>() + (c * rows * heads + index) * (d + 2); };
        float maximum = cpu::kNoLogit, denominator = 0.0f;
        for (int64_t c = 0; c < count; ++c) maximum = std::max(maximum, part(c)[d]);
        std::fill_n(merged, d, 0.0f);
        for (int64_t c = 0; c < count; ++c) {
          const float weight = std::exp(part(c)[d] - maximum);
          denominator += weight * part(c)[d + 1];
          for (int64_t i = 0; i < d; ++i) merged[i] += weight * part(c)[i];
        }
        const cpu::ElementwiseArgs args{
            .op = cpu::Elementwise::kScale,
            .a = {merged, 0, cpu::kFloat32},
            .out = {At(out, index / heads) + index % heads * d * DTypeSize(out.dtype()), 0, KernelType(out.dtype())},
            .width = d,
            .factor = denominator > 0 ? 1.0f / denominator : 0.0f};
        kernels_.elementwise(args, 0, 1);
      }
    });
  });
}

}  // namespace kinora
