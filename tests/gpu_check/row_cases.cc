#include "engine/base/strings.h"
#include "tests/gpu_check/op_cases.h"

namespace kinora {
namespace {

constexpr int64_t kHeadWidth = 64, kSlots = 6;

// Two table rows, as used by tokens of two noise levels.
Modulation DrawModulation(Workbench& bench, const Shape& shape) {
  return {.table = bench.Random(DType::kF32, {2, kSlots, shape[1]}, 0.3f),
          .base = bench.Random(DType::kF32, {kSlots, shape[1]}, 0.3f),
          .row = bench.Indices({shape[0]}, 2)};
}

NormRopeParams DrawNormRope(Workbench& bench, const Shape& shape, int64_t group) {
  return {.weight = bench.Random(DType::kF32, {group}),
          .group = group,
          .head_width = kHeadWidth,
          .rope = {.cos = bench.Random(DType::kF32, {shape[0], shape[1] / 2}),
                   .sin = bench.Random(DType::kF32, {shape[0], shape[1] / 2})}};
}

struct Rows {
  Shape shape;
  DType dtype;
  std::vector<OpCase> cases{};

  void Add(const char* op, std::function<PreparedOp(Workbench&)> prepare) {
    cases.push_back({op, shape.ToString(), dtype, std::move(prepare)});
  }
  // Adds an op that writes a separate output: run(bench, x, out).
  template <typename Run>
  void AddUnary(const char* op, Run run) {
    Add(op, [run, shape = shape, dtype = dtype](Workbench& bench) {
      const Tensor x = bench.Random(dtype, shape), out = bench.Output(dtype, shape);
      return PreparedOp{run(bench, x, out), out};
    });
  }
};

void AddNorms(Rows& rows) {
  using Run = std::function<void()>;
  rows.AddUnary("RmsNorm", [](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
    const Tensor weight = b.Random(DType::kF32, {x.width()});
    return [&b, x, out, weight] { b.ops().RmsNorm(x, &weight, 1e-6f, Activation::kNone, out); };
  });
  rows.AddUnary("RmsNorm and SiLU", [](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
    return [&b, x, out] { b.ops().RmsNorm(x, nullptr, 1e-8f, Activation::kSilu, out); };
  });
  rows.AddUnary("LayerNorm", [](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
    return [&b, x, out] { b.ops().LayerNorm(x, 1e-6f, out); };
  });
  const auto modulated = [&](const char* op, auto run) {
    rows.AddUnary(op, [run](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
      const ScaleShift m{DrawModulation(b, x.shape()), 1, 2};
      return [&b, run, x, out, m] { run(b.ops(), x, m, out); };
    });
  };
  modulated("Modulate", [](Ops& ops, const Tensor& x, const ScaleShift& m, Tensor out) { ops.Modulate(x, m, out); });
  modulated("ModulatedRmsNorm",
            [](Ops& ops, const Tensor& x, const ScaleShift& m, Tensor out) { ops.ModulatedRmsNorm(x, m, 1e-6f, out); });
  modulated("ModulatedLayerNorm", [](Ops& ops, const Tensor& x, const ScaleShift& m, Tensor out) {
    ops.ModulatedLayerNorm(x, m, 1e-6f, out);
  });
  rows.AddUnary("GatedAdd", [](Workbench& b, const Tensor& y, const Tensor& x) -> Run {
    const Gate gate{DrawModulation(b, x.shape()), 3};
    return [&b, y, x, gate] { b.ops().GatedAdd(y, gate, x); };
  });
}

// The gated residual and two norms of the sum, as used between the sublayers of a block.
void AddResidual(Rows& rows) {
  rows.Add("AddThenNorms", [shape = rows.shape, dtype = rows.dtype](Workbench& b) {
    const Tensor y = b.Random(dtype, shape), normed = b.Output(dtype, {2 * shape[0], shape[1]});
    const Modulation m = DrawModulation(b, shape);
    ResidualUpdate update;
    update.x = b.Random(dtype, shape);
    update.gate = {m, 0};
    update.normed[0] = {normed.Rows(0, shape[0]), {m, 1, 2}};
    update.normed[1] = {normed.Rows(shape[0], 2 * shape[0]), {m, 3, 4}};
    return PreparedOp{[&b, y, update] { b.ops().AddThenNorms(y, update); }, normed};
  });
}

void AddRotations(Rows& rows) {
  const Shape shape = rows.shape;
  const DType dtype = rows.dtype;
  const auto add = [&](const char* op, int64_t group) {
    rows.Add(op, [=](Workbench& b) {
      const Tensor x = b.Random(dtype, shape);
      const NormRopeParams params = DrawNormRope(b, shape, group);
      return PreparedOp{[&b, x, params] { b.ops().NormRope(x, params, nullptr); }, x};
    });
  };
  add("NormRope", shape[1]);
  add("NormRope per head", kHeadWidth);
  rows.Add("NormRope with outer sums", [=](Workbench& b) {
    const Tensor x = b.Random(dtype, shape), sums = b.Output(DType::kF32, {shape[0], 1});
    NormRopeParams params = DrawNormRope(b, shape, shape[1]);
    params.full_group = 2 * shape[1];
    return PreparedOp{[&b, x, sums, params] { b.ops().NormRope(x, params, &sums); }, x};
  });
  rows.Add("QkNormRope", [=](Workbench& b) {
    const Tensor packed = b.Random(dtype, {shape[0], 3 * shape[1]});
    const Tensor q = packed.Columns(0, shape[1]), k = packed.Columns(shape[1], 2 * shape[1]);
    const NormRopeParams of_q = DrawNormRope(b, shape, shape[1]);
    NormRopeParams of_k = of_q;
    of_k.weight = b.Random(DType::kF32, {shape[1]});
    return PreparedOp{[&b, q, k, of_q, of_k] { b.ops().QkNormRope(q, k, of_q, of_k); }, packed};
  });
  rows.Add("SumOfSquares", [=](Workbench& b) {
    const Tensor x = b.Random(dtype, shape), out = b.Output(DType::kF32, {shape[0], 1});
    return PreparedOp{[&b, x, out] { b.ops().SumOfSquares(x, out); }, out};
  });
}

// What two token ranks exchange.
void AddBlocks(Rows& rows) {
  const Shape shape = rows.shape;
  const DType dtype = rows.dtype;
  rows.Add("QkNormRopeToBlocks", [=](Workbench& b) {
    QkvParts parts{.q = b.Random(dtype, shape), .k = b.Random(dtype, shape), .v = b.Random(dtype, shape)};
    parts.q_params = parts.k_params = DrawNormRope(b, shape, shape[1]);
    const Tensor blocks = b.Output(dtype, {1, 2, shape[0], 3 * shape[1] / 2});
    return PreparedOp{[&b, parts, blocks] { b.ops().QkNormRopeToBlocks(parts, blocks); }, blocks};
  });
  rows.Add("JoinBlocksThenGateHeads", [=](Workbench& b) {
    const HeadBlocks from{.blocks = b.Random(dtype, {1, 2, shape[0], shape[1] / 2}),
                          .values = b.Random(dtype, {1, shape[1]})};
    const Tensor logits = b.Random(DType::kF32, {shape[0], shape[1] / kHeadWidth}, 0.1f), x = b.Output(dtype, shape);
    return PreparedOp{[&b, from, logits, x] { b.ops().JoinBlocksThenGateHeads(from, &logits, x); }, x};
  });
}

void AddElementwise(Rows& rows) {
  using Run = std::function<void()>;
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    rows.AddUnary(activation == Activation::kSilu ? "Activate SiLU" : "Activate GELU",
                  [=](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
                    return [&b, activation, x, out] { b.ops().Activate(x, activation, out); };
                  });
  }
  rows.AddUnary(
      "Add", [](Workbench& b, const Tensor& y, const Tensor& x) -> Run { return [&b, y, x] { b.ops().Add(y, x); }; });
  rows.AddUnary("ActivateThenMultiply", [](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
    const Tensor up = b.Random(x.dtype(), x.shape());
    return [&b, x, up, out] { b.ops().ActivateThenMultiply(x, Activation::kGeluTanh, up, out); };
  });
  rows.Add("GateHeads", [shape = rows.shape, dtype = rows.dtype](Workbench& b) {
    const Tensor x = b.Random(dtype, shape), logits = b.Random(dtype, {shape[0], shape[1] / kHeadWidth}, 0.1f);
    return PreparedOp{[&b, x, logits] { b.ops().GateHeads(logits, x); }, x};
  });
  rows.AddUnary("Scale", [](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
    return [&b, x, out] { b.ops().Scale(x, 1.25f, out); };
  });
  rows.AddUnary("Affine", [](Workbench& b, const Tensor& x, const Tensor& out) -> Run {
    const Tensor scale = b.Random(DType::kF32, {x.width()}), shift = b.Random(DType::kF32, {x.width()});
    return [&b, x, scale, shift, out] { b.ops().Affine(x, scale, shift, out); };
  });
  rows.Add("Fill", [shape = rows.shape, dtype = rows.dtype](Workbench& b) {
    const Tensor out = b.Output(dtype, shape);
    return PreparedOp{[&b, out] { b.ops().Fill(0.75f, out); }, out};
  });
  rows.Add("Copy, other type", [shape = rows.shape, dtype = rows.dtype](Workbench& b) {
    const Tensor x = b.Random(dtype, shape), out = b.Output(dtype == DType::kF32 ? DType::kBF16 : DType::kF32, shape);
    return PreparedOp{[&b, x, out] { b.ops().stream().Copy(x, out); }, out};
  });
}

}  // namespace

std::vector<OpCase> RowCases(int64_t rows, int64_t width, DType dtype) {
  Rows all{.shape = {rows, width}, .dtype = dtype};
  AddNorms(all);
  AddResidual(all);
  AddRotations(all);
  AddBlocks(all);
  AddElementwise(all);
  return std::move(all.cases);
}

}  // namespace kinora
