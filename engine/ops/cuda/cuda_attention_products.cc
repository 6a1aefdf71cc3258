// Attention as two products around a softmax, for cases that do not go to cuDNN: float32, mixtures of types, queries
// that see no key, causal attention of a prompt's length. The scratch memory holds the logits of as many heads and
// queries at a time as fit.
#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/copy_rows.h"
#include "kernels/softmax.h"

namespace kinora {
namespace {

constexpr int64_t kPadding = 4096;  // between the pieces of scratch memory

// Heads of one width, side by side in rows: [rows, count · width], `stride` elements from one head to the next.
struct Heads {
  Tensor rows;  // of the first head
  int64_t stride;
};

Heads HeadsOf(const Tensor& t, int64_t first_row, int64_t rows, int64_t head, int64_t width, int64_t stride) {
  const int64_t at = (first_row * t.row_stride() + head * width) * DTypeSize(t.dtype());
  return {Tensor(t.dtype(), {rows, width}, static_cast<char*>(t.raw()) + at, t.row_stride()), stride};
}

Operand OperandOf(const Heads& heads, bool transposed = false) {
  return {.data = heads.rows.raw(),
          .dtype = heads.rows.dtype(),
          .stride = heads.rows.row_stride(),
          .transposed = transposed,
          .batch_stride = heads.stride};
}

// Returns heads in `dtype`: `from` itself, or a converted copy of its first head.
absl::StatusOr<Heads> Converted(const Heads& from, DType dtype, Scratch& scratch, cudaStream_t stream) {
  if (from.rows.dtype() == dtype) return from;
  const Tensor to = scratch.Take(dtype, from.rows.shape());
  KINORA_RETURN_IF_ERROR(CudaStatus(kernels::LaunchCopyRows(View(from.rows), View(to), to.rows(), to.width(), stream),
                                    "a conversion of heads"));
  return Heads{to, 0};
}

// Allocates [heads · rows, keys] with rows of whole vectors.
Heads Matrices(DType dtype, int64_t heads, int64_t rows, int64_t keys, Scratch& scratch) {
  const int64_t stride = (keys + 7) / 8 * 8;
  const Tensor whole = scratch.Take(dtype, {heads * rows, stride});
  return {Tensor(dtype, {rows, keys}, whole.raw(), stride), rows * stride};
}

kernels::Softmax SoftmaxOf(const AttentionOptions& o, const Heads& logits, const Heads& weights, int64_t first_query,
                           int64_t matrices) {
  return {.logits = logits.rows.data<float>(),
          .stride = logits.rows.row_stride(),
          .weights = View(weights.rows),
          .matrices = matrices,
          .rows = logits.rows.rows(),
          .keys = logits.rows.width(),
          .first_query = first_query,
          .scale = o.scale,
          .bias = o.bias.defined() ? o.bias.data<float>() : nullptr,
          .bias_stride = o.bias.defined() ? o.bias.row_stride() : 0,
          .causal = o.causal,
          .window = o.causal ? o.window : 0};
}

// out = weights · v, for each of `batch` heads; batch must be 1 if the products' type is wider than out's.
absl::Status MultiplyValues(absl::FunctionRef<absl::Status(const Product&)> run, const Heads& weights, const Heads& v,
                            const Heads& out, int batch, Scratch& scratch, cudaStream_t stream) {
  const bool narrows = weights.rows.dtype() == DType::kF32 && out.rows.dtype() != DType::kF32;
  const Heads result = narrows ? Heads{scratch.Take(DType::kF32, out.rows.shape()), 0} : out;
  KINORA_RETURN_IF_ERROR(run({.m = out.rows.rows(),
                              .n = out.rows.width(),
                              .k = v.rows.rows(),
                              .a = OperandOf(weights),
                              .b = OperandOf(v),
                              .d = OperandOf(result),
                              .batch = batch}));
  if (!narrows) return absl::OkStatus();
  return CudaStatus(
      kernels::LaunchCopyRows(View(result.rows), View(out.rows), out.rows.rows(), out.rows.width(), stream),
      "a conversion of heads");
}

}  // namespace

struct CudaOps::ProductAttention {
  Tensor q, k, v, out;
  AttentionOptions options;
  int64_t queries, keys, key_end, width, kv_heads;
  int64_t group() const { return options.heads / kv_heads; }  // query heads that share keys
  bool converts() const {
    return q.dtype() != dtype() || k.dtype() != dtype() || v.dtype() != dtype() ||
           (dtype() == DType::kF32 && out.dtype() != DType::kF32);
  }
  // The dtype in which the products are computed.
  DType dtype() const {
    const bool all = q.dtype() == DType::kBF16 && k.dtype() == DType::kBF16 && v.dtype() == DType::kBF16;
    return all ? DType::kBF16 : DType::kF32;
  }
};

// The heads and queries that are computed at a time.
struct CudaOps::AttentionPart {
  int batch;
  int64_t kv_head, kv_heads;  // first key head, and number of key heads
  int64_t query, queries;
};

void CudaOps::AttendByProducts(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                               const Tensor& out) {
  const ProductAttention a{.q = q.As2D(),
                           .k = k.As2D(),
                           .v = v.As2D(),
                           .out = out.As2D(),
                           .options = options,
                           .queries = q.rows() / options.batch,
                           .keys = k.rows() / options.kv_batches,
                           .key_end = KeysThatCount(k, options),
                           .width = q.width() / options.heads,
                           .kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads};
  // Scratch memory of a head: bytes per query, and its keys and values if they are converted.
  const int64_t logits = (a.key_end + 7) / 8 * 8 * (a.dtype() == DType::kBF16 ? 4 + 2 : 4);
  const int64_t row_bytes = logits + (a.converts() ? 2 * a.width * 4 : 0);
  const int64_t room = scratch_.bytes() - kPadding - (a.converts() ? 2 * a.key_end * a.width * 4 : 0);
  const int64_t rows = std::clamp<int64_t>(room / row_bytes, 1, a.queries);
  const int64_t heads = a.converts() ? 1 : std::clamp<int64_t>(room / (rows * row_bytes), 1, a.kv_heads);
  stream_->Enqueue("Attention", q, [&](cudaStream_t stream) {
    for (int batch = 0; batch < options.batch; ++batch) {
      for (int64_t head = 0; head < a.kv_heads; head += heads) {
        for (int64_t row = 0; row < a.queries; row += rows) {
          const AttentionPart part{.batch = batch,
                                   .kv_head = head,
                                   .kv_heads = std::min(heads, a.kv_heads - head),
                                   .query = row,
                                   .queries = std::min(rows, a.queries - row)};
          for (int64_t member = 0; member < a.group(); ++member) {
            KINORA_RETURN_IF_ERROR(AttendPart(a, part, member, stream));
          }
        }
      }
    }
    return absl::OkStatus();
  });
}

// Computes one query head for each key head of the part: query head kv_head · group + member reads key head kv_head.
absl::Status CudaOps::AttendPart(const ProductAttention& a, const AttentionPart& part, int64_t member,
                                 cudaStream_t stream) {
  const AttentionOptions& o = a.options;
  Scratch scratch(scratch_);
  const int64_t q_row = part.batch * a.queries + part.query, kv_row = o.kv_batch[part.batch] * a.keys;
  const int64_t q_head = part.kv_head * a.group() + member, q_stride = a.group() * a.width;
  const DType dtype = a.dtype();
  const auto keys_of = [&](const Tensor& t) {
    return Converted(HeadsOf(t, kv_row, a.key_end, part.kv_head, a.width, a.width), dtype, scratch, stream);
  };
  KINORA_ASSIGN_OR_RETURN(
      const Heads q, Converted(HeadsOf(a.q, q_row, part.queries, q_head, a.width, q_stride), dtype, scratch, stream));
  KINORA_ASSIGN_OR_RETURN(const Heads k, keys_of(a.k));
  KINORA_ASSIGN_OR_RETURN(const Heads v, keys_of(a.v));
  const Heads logits = Matrices(DType::kF32, part.kv_heads, part.queries, a.key_end, scratch);
  const Heads weights =
      dtype == DType::kF32 ? logits : Matrices(dtype, part.kv_heads, part.queries, a.key_end, scratch);
  const auto batch = static_cast<int>(part.kv_heads);
  KINORA_RETURN_IF_ERROR(RunProduct({.m = part.queries,
                                     .n = a.key_end,
                                     .k = a.width,
                                     .a = OperandOf(q),
                                     .b = OperandOf(k, /*transposed=*/true),
                                     .d = OperandOf(logits),
                                     .batch = batch}));
  const kernels::Softmax softmax = SoftmaxOf(o, logits, weights, part.query, part.kv_heads);
  KINORA_RETURN_IF_ERROR(CudaStatus(kernels::LaunchSoftmax(softmax, stream), "a softmax"));
  const Heads out = HeadsOf(a.out, q_row, part.queries, q_head, a.width, q_stride);
  const auto run = [this](const Product& product) { return RunProduct(product); };
  return MultiplyValues(run, weights, v, out, batch, scratch, stream);
}

}  // namespace kinora
