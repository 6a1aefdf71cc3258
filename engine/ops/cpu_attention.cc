// Attention in blocks with a running softmax (Milakov & Gimelshein 2018; Dao et al. 2022): no queries × keys matrix exists. Keys are
// taken in fixed blocks from the first one on, so a row's sums do not depend on which queries share its block.
#include <algorithm>

#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"

namespace kinora {
namespace {

constexpr float kNoMaximum = -3.0e38f;  // below any logit that counts

// One thread's scratch, as attention uses it.
struct AttentionSpace {
  explicit AttentionSpace(void* memory) {
    char* at = static_cast<char*>(memory);
    const auto take = [&at](int64_t bytes) { return std::exchange(at, at + bytes); };
    queries = take(kPackedQueryBytes);
    keys = take(kPackedKeyBytes);
    values = take(kPackedKeyBytes);
    logits = reinterpret_cast<float*>(take(kLogitBytes));
    weights = take(kLogitBytes);
    sums = reinterpret_cast<float*>(take(kQueryRows * kMaxHeadWidth * 4));
    maximum = reinterpret_cast<float*>(take(kQueryRows * 4));
    denominator = reinterpret_cast<float*>(take(kQueryRows * 4));
    pointers = reinterpret_cast<const void**>(take(kQueryRows * 8));
  }
  char *queries, *keys, *values, *weights;  // packed
  float *logits, *sums, *maximum, *denominator;
  const void** pointers;
};

Tensor HeadColumns(const Tensor& t, int64_t row, int64_t head, int64_t width) {
  return Tensor(t.dtype(), {1, width}, At(t, row) + head * width * DTypeSize(t.dtype()), t.row_stride());
}

}  // namespace

struct CpuOps::AttentionPlan {
  Tensor q, k, v, out;
  AttentionOptions options;
  cpu::Type type;
  int64_t head_width, queries, keys;  // a sequence's
  int64_t key_end;                    // keys that count
  int64_t chunks = 0, chunk_keys;     // chunks 0: one run of keys, normalised
  int64_t query_blocks;
  int64_t tasks() const { return std::max<int64_t>(1, chunks) * options.batch * options.heads * query_blocks; }
};

namespace {

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
  plan.queries = q.rows() / options.batch;
  plan.keys = k.rows() / options.kv_batches;
  plan.key_end = options.key_length >= 0 ? std::min(options.key_length, plan.keys) : plan.keys;
  plan.query_blocks = (plan.queries + kQueryRows - 1) / kQueryRows;
  // bf16 products only where everything is bf16; a mixture is computed in float32.
  const bool all_bf16 = q.dtype() == DType::kBF16 && k.dtype() == DType::kBF16 && v.dtype() == DType::kBF16;
  plan.type = all_bf16 ? cpu::kBfloat16 : cpu::kFloat32;
  if (options.bias.defined()) {
    KINORA_CHECK(options.bias.rows() == plan.queries && options.bias.width() == plan.keys)
        << options.bias.shape().ToString();
  }
}

}  // namespace

void CpuOps::Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, Tensor out) {
  AttentionPlan plan;
  FillPlan(q, k, v, options, plan);
  KINORA_CHECK(out.rows() == q.rows() && out.width() == q.width()) << out.shape().ToString();
  plan.out = out;
  plan.chunk_keys = plan.keys;
  stream_.Enqueue([this, plan] { RunAttention(plan); });
}

void CpuOps::AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, Tensor out) {
  AttentionPlan plan;
  FillPlan(q, k, v, options, plan);
  plan.chunks = out.dim(0);
  KINORA_CHECK(plan.keys % plan.chunks == 0) << plan.keys << " keys in " << plan.chunks << " chunks";
  KINORA_CHECK(out.contiguous() && out.elements() == plan.chunks * q.rows() * options.heads * (plan.head_width + 2))
      << out.shape().ToString();
  plan.out = out;
  plan.chunk_keys = plan.keys / plan.chunks;
  stream_.Enqueue([this, plan] { RunAttention(plan); });
}

void CpuOps::RunAttention(const AttentionPlan& plan) {
  if (plan.queries == 0) return;
  if (plan.queries * plan.keys * plan.head_width * plan.options.heads < 1 << 18) {  // not worth a wake-up
    for (int64_t task = 0; task < plan.tasks(); ++task) AttentionTask(plan, task, 0);
    return;
  }
  pool_.Run(plan.tasks(), [&](int64_t task, int thread) { AttentionTask(plan, task, thread); });
}

void CpuOps::AttentionTask(const AttentionPlan& plan, int64_t task, int thread) {
  const AttentionOptions& o = plan.options;
  const int64_t query_block = task % plan.query_blocks, head = task / plan.query_blocks % o.heads;
  const int64_t batch = task / plan.query_blocks / o.heads % o.batch, chunk = task / plan.query_blocks / o.heads / o.batch;
  const int64_t d = plan.head_width, padded_d = (d + 1) / 2 * 2, columns = kernels_.panel_columns;
  const int64_t element = plan.type == cpu::kFloat32 ? 4 : 2;
  const int64_t first_query = query_block * kQueryRows, rows = std::min(kQueryRows, plan.queries - first_query);
  const int64_t q_row = batch * plan.queries + first_query, kv_row = o.kv_batch[batch] * plan.keys;
  const int64_t kv_head = head / (o.heads / o.kv_heads);
  const int64_t o_stride = (d + columns - 1) / columns * columns;
  AttentionSpace space(workspace_[thread].data());

  for (int64_t i = 0; i < rows; ++i) space.pointers[i] = At(plan.q, q_row + i);
  kernels_.pack_rows(space.pointers, KernelType(plan.q.dtype()), rows, head * d, d, 0, padded_d, plan.type, space.queries);
  std::fill_n(space.sums, rows * o_stride, 0.0f);
  std::fill_n(space.maximum, rows, kNoMaximum);
  std::fill_n(space.denominator, rows, 0.0f);

  const int64_t key_begin = chunk * plan.chunk_keys, key_end = std::min(plan.key_end, key_begin + plan.chunk_keys);
  for (int64_t key = key_begin; key < key_end; key += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, key_end - key), padded_keys = (keys + 1) / 2 * 2;
    if (o.causal && key > first_query + rows - 1) break;
    if (o.causal && o.window > 0 && key + keys <= first_query - o.window + 1) continue;
    kernels_.pack_keys(View(HeadColumns(plan.k, kv_row + key, kv_head, d)), keys, d, plan.type, space.keys);
    kernels_.pack_values(View(HeadColumns(plan.v, kv_row + key, kv_head, d)), keys, d, plan.type, space.values);
    for (int64_t tile = 0; tile < rows; tile += kTileQueries) {
      const int64_t m = std::min(kTileQueries, rows - tile);
      kernels_.multiply(space.queries + tile * padded_d * element, padded_d, space.keys, padded_d * columns * element,
                        plan.type, m, d, (keys + columns - 1) / columns, space.logits, kKeyBlock, true);
      int32_t first[kTileQueries], last[kTileQueries];
      for (int64_t i = 0; i < m; ++i) {
        const int64_t position = first_query + tile + i;
        first[i] = o.causal && o.window > 0 ? static_cast<int32_t>(std::max<int64_t>(0, position - o.window + 1 - key)) : 0;
        last[i] = static_cast<int32_t>(std::max<int64_t>(0, o.causal ? std::min(keys, position + 1 - key) : keys));
      }
      kernels_.softmax_block({.s = space.logits,
                              .stride = kKeyBlock,
                              .rows = m,
                              .keys = keys,
                              .scale = o.scale,
                              .bias = o.bias.defined() ? o.bias.data<float>() + (first_query + tile) * o.bias.row_stride() + key
                                                       : nullptr,
                              .bias_stride = o.bias.row_stride(),
                              .first_key = first,
                              .last_key = last,
                              .maximum = space.maximum + tile,
                              .denominator = space.denominator + tile,
                              .o = space.sums + tile * o_stride,
                              .width = o_stride});
      for (int64_t i = 0; i < m; ++i) space.pointers[i] = space.logits + i * kKeyBlock;
      kernels_.pack_rows(space.pointers, cpu::kFloat32, m, 0, keys, 0, padded_keys, plan.type, space.weights);
      const int64_t value_rows = plan.type == cpu::kFloat32 ? keys : padded_keys;
      kernels_.multiply(space.weights, padded_keys, space.values, value_rows * columns * element, plan.type, m, keys,
                        (d + columns - 1) / columns, space.sums + tile * o_stride, o_stride, false);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    const float* sum = space.sums + i * o_stride;
    if (plan.chunks > 0) {
      float* out = plan.out.data<float>() + ((chunk * plan.q.rows() + q_row + i) * o.heads + head) * (d + 2);
      std::copy_n(sum, d, out);
      out[d] = space.maximum[i];
      out[d + 1] = space.denominator[i];
      continue;
    }
    const float factor = space.denominator[i] > 0 ? 1.0f / space.denominator[i] : 0.0f;
    const cpu::ElementwiseArgs args{
        .op = cpu::Elementwise::kScale,
        .a = {const_cast<float*>(sum), 0, cpu::kFloat32},
        .out = {At(plan.out, q_row + i) + head * d * DTypeSize(plan.out.dtype()), 0, KernelType(plan.out.dtype())},
        .width = d,
        .factor = factor};
    kernels_.elementwise(args, 0, 1);
  }
}

void CpuOps::MergeChunks(const Tensor& chunks, Tensor out) {
  const int64_t count = chunks.dim(0), heads = chunks.dim(2), d = chunks.dim(3) - 2, rows = out.rows();
  KINORA_CHECK(chunks.contiguous() && chunks.dim(1) == rows && out.width() == heads * d) << chunks.shape().ToString();
  stream_.Enqueue([this, chunks, out, count, heads, d, rows] {
    ForRows(rows, count * heads * d * 4, [&](int64_t begin, int64_t end) {
      float merged[kMaxHeadWidth];
      for (int64_t index = begin * heads; index < end * heads; ++index) {
        const auto part = [&](int64_t c) { return chunks.data<float>() + (c * rows * heads + index) * (d + 2); };
        float maximum = kNoMaximum, denominator = 0.0f;
        for (int64_t c = 0; c < count; ++c) maximum = std::max(maximum, part(c)[d]);
        std::fill_n(merged, d, 0.0f);
        for (int64_t c = 0; c < count; ++c) {
          const float weight = std::exp(part(c)[d] - maximum);
          denominator += weight * part(c)[d + 1];
          for (int64_t i = 0; i < d; ++i) merged[i] += weight * part(c)[i];
        }
        const cpu::ElementwiseArgs args{.op = cpu::Elementwise::kScale,
                                        .a = {merged, 0, cpu::kFloat32},
                                        .out = {At(out, index / heads) + index % heads * d * DTypeSize(out.dtype()), 0,
                                                KernelType(out.dtype())},
                                        .width = d,
                                        .factor = denominator > 0 ? 1.0f / denominator : 0.0f};
        kernels_.elementwise(args, 0, 1);
      }
    });
  });
}

}  // namespace kinora
