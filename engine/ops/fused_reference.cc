// The definitions of the fused ops. A backend's override is tested against these on the same object.
#include "absl/functional/function_ref.h"
#include "engine/ops/op_checks.h"
#include "engine/ops/ops.h"

namespace kinora {
namespace {

void WriteNorms(Ops& ops, const ResidualUpdate& update) {
  for (const NormedOutput& normed : update.normed) {
    if (!normed.out.defined()) continue;
    const Tensor x = update.x.As2D().Rows(0, normed.out.rows());
    if (normed.modulation.modulation.table.defined()) {
      ops.ModulatedRmsNorm(x, normed.modulation, update.eps, normed.out);
    } else {
      ops.RmsNorm(x, /*weight=*/nullptr, update.eps, Activation::kNone, normed.out);
    }
  }
}

// Calls f(block, piece) for each block of [sequences, n, rows, …], as a matrix, and its piece of x [sequences·rows,
// n·width].
void ForEachBlock(const Tensor& blocks, const Tensor& x, int64_t width,
                  absl::FunctionRef<void(const Tensor& block, const Tensor& piece)> f) {
  const int64_t n = blocks.dim(1), rows = blocks.dim(2);
  const Tensor by_block = blocks.Reshape({blocks.dim(0) * n, rows, blocks.dim(3)});
  for (int64_t s = 0; s < blocks.dim(0); ++s) {
    const Tensor of_sequence = x.As2D().Rows(s * rows, (s + 1) * rows);
    for (int64_t b = 0; b < n; ++b) {
      f(by_block.Rows(s * n + b, s * n + b + 1).As2D(), of_sequence.Columns(b * width, (b + 1) * width));
    }
  }
}

}  // namespace

void Ops::ModulatedRmsNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  RmsNorm(x, /*weight=*/nullptr, eps, Activation::kNone, out);
  Modulate(out, m, out);
}

void Ops::ModulatedLayerNorm(const Tensor& x, const ScaleShift& m, float eps, Tensor out) {
  LayerNorm(x, eps, out);
  Modulate(out, m, out);
}

void Ops::GroupNormThenSilu(const Tensor& x, const GroupNormParams& params, const Tensor* residual, Tensor out) {
  GroupNorm(x, params, out);
  if (residual != nullptr) Add(*residual, out);
  Activate(out, Activation::kSilu, out);
}

void Ops::AddThenNorms(const Tensor& y, const ResidualUpdate& update) {
  const Tensor x = update.x.As2D().Rows(0, y.rows());
  if (update.gate.modulation.table.defined()) {
    GatedAdd(y, update.gate, x);
  } else {
    Add(y, x);
  }
  WriteNorms(*this, update);
}

void Ops::MatmulThenNorms(const Tensor& x, const Weight& w, const ResidualUpdate& update) {
  const bool gated = update.gate.modulation.table.defined();
  const Tensor sum = update.x.As2D().Rows(0, x.rows());
  Matmul(x, w, {.accumulate = gated ? Accumulate::kGated : Accumulate::kAdd, .gate = update.gate}, sum);
  WriteNorms(*this, update);
}

void Ops::MergeChunksThenGateHeads(const Tensor& chunks, const Tensor& logits, Tensor out) {
  MergeChunks(chunks, out);
  GateHeads(logits, out);
}

void Ops::ReplaceRowsThenGateHeads(const Tensor& values, int64_t first, const Tensor& logits, Tensor x) {
  stream().Copy(values, x.As2D().Rows(first, first + values.rows()));
  GateHeads(logits, x);
}

void Ops::QkNormRope(Tensor q, Tensor k, const NormRopeParams& q_params, const NormRopeParams& k_params) {
  NormRope(q, q_params, nullptr);
  NormRope(k, k_params, nullptr);
}

void Ops::QkNormRopeToBlocks(const QkvParts& parts, Tensor blocks) {
  CheckQkvBlocks(parts, blocks);
  const auto sums = [](const Tensor& t) { return t.defined() ? &t : nullptr; };
  NormRope(parts.q, parts.q_params, sums(parts.q_sums));
  NormRope(parts.k, parts.k_params, sums(parts.k_sums));
  const int64_t width = blocks.dim(3) / 3;
  int64_t column = 0;
  for (const Tensor& part : {parts.q, parts.k, parts.v}) {
    ForEachBlock(blocks, part, width, [&](const Tensor& block, const Tensor& of_part) {
      stream().Copy(of_part, block.Columns(column, column + width));
    });
    column += width;
  }
}

void Ops::JoinBlocksThenGateHeads(const HeadBlocks& from, const Tensor* logits, Tensor x) {
  CheckHeadBlocks(from, logits, x);
  const int64_t rows = from.blocks.dim(0) * from.blocks.dim(2);
  ForEachBlock(from.blocks, x.As2D().Rows(from.first_block, from.first_block + rows), from.blocks.dim(3),
               [&](const Tensor& block, const Tensor& of_x) { stream().Copy(block, of_x); });
  if (from.values.defined()) {
    stream().Copy(from.values, x.As2D().Rows(from.first_value, from.first_value + from.values.rows()));
  }
  if (logits != nullptr) GateHeads(*logits, x);
}

void Ops::SnakeThenConv(const Tensor& x, const AntiAliasedSnake& snake, const Weight& w, const ConvAxis& time,
                        Accumulate accumulate, Tensor bent, Tensor out) {
  const auto pixels = [](const Tensor& t) { return t.Reshape({1, t.dim(0), 1, t.dim(1)}); };
  Snake(x, snake, bent);
  Conv(pixels(bent), w, {.height = time, .accumulate = accumulate}, pixels(out));
}

void Ops::GuidedEulerStep(const Prediction& p, const Tensor& sigmas, Tensor z) {
  PredictX0(z, p.v, p.sigma, p.v);
  CombineGuidance(p.v, p.weights, p.cond, p.x0);
  if (p.clean.defined()) {
    Modulate(p.x0, {.modulation = p.mask, .scale_slot = 0, .shift_slot = 1}, p.x0);
    GatedAdd(p.clean, {.modulation = p.mask, .slot = 2}, p.x0);
  }
  EulerStep(p.x0, sigmas, z);
}

}  // namespace kinora
