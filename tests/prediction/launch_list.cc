#include "tests/prediction/launch_list.h"

#include <algorithm>
#include <utility>

#include "engine/ops/attention_runs.h"
#include "engine/ops/cuda_traits.h"
#include "engine/ops/op_checks.h"

namespace kinora {
namespace {

constexpr std::string_view kProduct = "product", kAttention = "attention", kRowNorm = "row_norm",
                           kRotation = "qk_norm_rope", kElementwise = "elementwise", kMerge = "merge_splits",
                           kJoin = "join_heads";

int64_t Bytes(const Tensor& t) { return t.defined() ? t.bytes() : 0; }
int64_t Bytes(const Modulation& m) { return Bytes(m.table) + Bytes(m.base) + Bytes(m.row); }
int64_t Bytes(const NormedOutput& normed) {
  return normed.out.defined() ? normed.out.bytes() + Bytes(normed.modulation.modulation) : 0;
}

// The residual's kernel: reads y and its rows of x, writes these rows and the norms.
int64_t BytesOf(const ResidualUpdate& update, int64_t y_rows, int64_t y_bytes) {
  const int64_t row = update.x.width() * DTypeSize(update.x.dtype());
  int64_t read = y_rows;
  for (const NormedOutput& normed : update.normed) {
    if (normed.out.defined()) read = std::max(read, normed.out.rows());
  }
  return (read + y_rows) * row + y_bytes + Bytes(update.gate.modulation) + Bytes(update.normed[0]) +
         Bytes(update.normed[1]);
}

// Tables that q and k share are read once.
int64_t BytesOfRotation(const Tensor& q, const Tensor& k, const NormRopeParams& q_params,
                        const NormRopeParams& k_params) {
  const auto tables = [](const NormRopeParams& p) { return Bytes(p.rope.cos) + Bytes(p.rope.sin); };
  const bool shared = q.rows() == k.rows() && tables(q_params) == tables(k_params);
  return 2 * (q.bytes() + k.bytes()) + Bytes(q_params.weight) + Bytes(k_params.weight) + tables(q_params) +
         (shared ? 0 : tables(k_params));
}

// As CudaOps decides: the library's epilogue adds the bias, GELU, or the result that is there.
bool Fuses(const Weight& w, const MatmulOptions& options, DType out) {
  if (w.dtype() == DType::kF32 && out != DType::kF32) return false;
  if (options.accumulate == Accumulate::kGated || options.activation == Activation::kSilu) return false;
  return options.accumulate == Accumulate::kNo || options.activation == Activation::kNone;
}

std::string_view KernelOf(OpKind kind) {
  switch (kind) {
    case OpKind::kMatmul:
      return kProduct;
    case OpKind::kAttention:
      return kAttention;
    case OpKind::kConv:
      return "convolution";
    case OpKind::kNorm:
      return kRowNorm;
    case OpKind::kElementwise:
      return kElementwise;
    case OpKind::kLookup:
      return "lookups";
    case OpKind::kCopy:
      return "copy";
  }
  KINORA_CHECK(false) << "kind " << static_cast<int>(kind);
  return {};
}

}  // namespace

LaunchOps::LaunchOps(std::vector<Launch>& list, int& section, bool is_branch)
    : DryOps(CudaWeightLayout(), /*unified_memory=*/false), list_(list), section_(section), is_branch_(is_branch) {
  stream().SetListener(this);
}

void LaunchOps::OnCount(OpKind kind, double flops, int64_t bytes) {
  Add({.kernel = kernel_.empty() ? KernelOf(kind) : kernel_, .flop = flops, .bytes = bytes});
}

void LaunchOps::Add(Launch launch) {
  if (unlisted_) return;
  launch.on_branch = is_branch_;
  launch.section = section_;
  list_.push_back(launch);
}

void LaunchOps::As(std::string_view kernel, absl::FunctionRef<void()> op) {
  const std::string_view outer = std::exchange(kernel_, kernel);
  op();
  kernel_ = outer;
}

void LaunchOps::AsOne(std::string_view kernel, int64_t bytes, absl::FunctionRef<void()> op) {
  const bool outer = std::exchange(unlisted_, true);
  op();
  unlisted_ = outer;
  Add({.kernel = kernel, .bytes = bytes});
}

void LaunchOps::AddProduct(int64_t rows, const Weight& w, int64_t result_bytes) {
  Add({.kernel = kProduct,
       .m = rows,
       .n = w.out(),
       .k = w.in(),
       .flop = 2.0 * static_cast<double>(rows * w.out() * w.in()),
       .bytes = rows * w.in() * DTypeSize(w.dtype()) + w.bytes() + result_bytes});
}

void LaunchOps::Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) {
  const bool outer = std::exchange(unlisted_, true);
  DryOps::Matmul(x, w, options, out);
  unlisted_ = outer;
  if (x.dtype() != w.dtype()) {
    Add({.kernel = "copy", .bytes = x.bytes() + x.elements() * DTypeSize(w.dtype())});
  }
  const bool adds = options.accumulate != Accumulate::kNo;
  if (Fuses(w, options, out.dtype())) return AddProduct(x.rows(), w, (adds ? 2 : 1) * out.bytes());
  const int64_t product = out.elements() * DTypeSize(DType::kF32);
  AddProduct(x.rows(), w, product);
  const bool gated = options.accumulate == Accumulate::kGated;
  Add({.kernel = gated ? kRowNorm : "finish_product",
       .bytes = product + (adds ? 2 : 1) * out.bytes() + (gated ? Bytes(options.gate.modulation) : 0)});
}

void LaunchOps::MatmulThenNorms(const Tensor& x, const Weight& w, const ResidualUpdate& update) {
  const bool outer = std::exchange(unlisted_, true);
  DryOps::MatmulThenNorms(x, w, update);
  unlisted_ = outer;
  const int64_t row_bytes = w.out() * DTypeSize(update.x.dtype());
  const int64_t block = std::min(x.rows(), kScratchBytes / row_bytes), blocks = (x.rows() + block - 1) / block;
  const int64_t residual = BytesOf(update, x.rows(), x.rows() * row_bytes);
  for (int64_t begin = 0; begin < x.rows(); begin += block) {
    const int64_t rows = std::min(block, x.rows() - begin);
    AddProduct(rows, w, rows * row_bytes);
    Add({.kernel = kRowNorm, .bytes = residual / blocks});
  }
}

void LaunchOps::AddThenNorms(const Tensor& y, const ResidualUpdate& update) {
  AsOne(kRowNorm, BytesOf(update, y.rows(), y.bytes()), [&] { DryOps::AddThenNorms(y, update); });
}

void LaunchOps::Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                          Tensor out) {
  const bool outer = std::exchange(unlisted_, true);
  DryOps::Attention(q, k, v, options, out);
  unlisted_ = outer;
  const int64_t queries = q.rows() / options.batch, keys = KeysThatCount(k, options);
  const bool to_itself = queries == k.rows() / options.kv_batches;
  for (const BatchRun& run : BatchRuns(options)) {
    const int64_t rows = run.count * queries, read = (run.stacked() ? 1 : run.count) * keys;
    Add({.kernel = kAttention,
         .m = rows,
         .n = keys,
         .k = q.width(),
         .to_itself = to_itself,
         .flop = 4.0 * static_cast<double>(rows * keys * q.width()),
         .bytes = 2 * rows * q.width() * DTypeSize(q.dtype()) + 2 * read * k.width() * DTypeSize(k.dtype())});
  }
}

void LaunchOps::AttentionChunks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                Tensor out) {
  As("split_attention", [&] { DryOps::AttentionChunks(q, k, v, options, out); });
}

void LaunchOps::MergeChunks(const Tensor& chunks, Tensor out) {
  As(kMerge, [&] { DryOps::MergeChunks(chunks, out); });
}

void LaunchOps::MergeChunksThenGateHeads(const Tensor& chunks, const Tensor& logits, Tensor out) {
  AsOne(kMerge, chunks.bytes() + logits.bytes() + out.bytes(),
        [&] { DryOps::MergeChunksThenGateHeads(chunks, logits, out); });
}

void LaunchOps::RmsNorm(const Tensor& x, const Tensor* weight, float eps, Activation activation, Tensor out) {
  As(kRowNorm, [&] { DryOps::RmsNorm(x, weight, eps, activation, out); });
}

void LaunchOps::LayerNorm(const Tensor& x, float eps, Tensor out) {
  As(kRowNorm, [&] { DryOps::LayerNorm(x, eps, out); });
}

void LaunchOps::Modulate(const Tensor& x, const ScaleShift& m, Tensor out) {
  As(kRowNorm, [&] { DryOps::Modulate(x, m, out); });
}

void LaunchOps::ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  As(kRowNorm, [&] { DryOps::ModulatedRmsNorm(x, m, eps, out); });
}

void LaunchOps::ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  As(kRowNorm, [&] { DryOps::ModulatedLayerNorm(x, m, eps, out); });
}

void LaunchOps::GatedAdd(const Tensor& y, const Gate& gate, Tensor x) {
  As(kRowNorm, [&] { DryOps::GatedAdd(y, gate, x); });
}

void LaunchOps::NormRope(Tensor x, const NormRopeParams& params, const Tensor* sum_of_squares) {
  As(kRotation, [&] { DryOps::NormRope(x, params, sum_of_squares); });
}

void LaunchOps::QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params) {
  AsOne(kRotation, BytesOfRotation(q, k, q_params, k_params), [&] { DryOps::QkNormRope(q, k, q_params, k_params); });
}

void LaunchOps::QkNormRopeToBlocks(const QkvParts& parts, Tensor blocks) {
  AsOne(kRotation,
        BytesOfRotation(parts.q, parts.k, parts.q_params, parts.k_params) + Bytes(parts.q_sums) + Bytes(parts.k_sums) +
            2 * parts.v.bytes(),
        [&] { DryOps::QkNormRopeToBlocks(parts, blocks); });
}

void LaunchOps::ReplaceRowsThenGateHeads(const Tensor& values, int64_t first, const Tensor& logits, Tensor x) {
  AsOne(kElementwise, logits.bytes() + 2 * x.bytes(),
        [&] { DryOps::ReplaceRowsThenGateHeads(values, first, logits, x); });
}

void LaunchOps::JoinBlocksThenGateHeads(const HeadBlocks& from, const Tensor* logits, Tensor x) {
  AsOne(kJoin, (logits != nullptr ? logits->bytes() : 0) + 2 * x.bytes(),
        [&] { DryOps::JoinBlocksThenGateHeads(from, logits, x); });
}

void LaunchOps::Increment(Tensor counters) {
  As("increment", [&] { DryOps::Increment(counters); });
}

// Two kernels: the weighted sum of the predictions with the sums for its deviation, then the rest.
void LaunchOps::GuidedEulerStep(const Prediction& p, const Tensor& sigmas, Tensor z) {
  AsOne("sampling", p.v.bytes() + z.bytes() + p.x0.bytes(), [&] { DryOps::GuidedEulerStep(p, sigmas, z); });
  Add({.kernel = "sampling", .bytes = 2 * p.x0.bytes() + 2 * z.bytes() + Bytes(p.clean)});
}

LaunchBackend::LaunchBackend()
    : DryBackend(TraitsOf("cuda", {}).value()),
      ops_(launches_, section_, /*is_branch=*/false),
      branch_(launches_, section_, /*is_branch=*/true) {}

}  // namespace kinora
