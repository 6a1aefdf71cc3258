#include <cmath>

#include "engine/base/strings.h"
#include "tests/gpu_check/op_cases.h"

namespace kinora {
namespace {

struct Products {
  std::vector<OpCase> cases{};
  void Add(const char* op, std::string shape, DType dtype, std::function<PreparedOp(Workbench&)> prepare) {
    cases.push_back({op, std::move(shape), dtype, std::move(prepare)});
  }
};

void AddMatmuls(Products& all, int64_t rows, int64_t out, int64_t in, DType dtype) {
  const auto add = [&](const char* op, const MatmulOptions& options, bool bias) {
    all.Add(op, Cat(rows, "x", out, "x", in), dtype, [=](Workbench& b) {
      const Tensor x = b.Random(dtype, {rows, in}), y = b.Random(dtype, {rows, out});
      const Weight w = b.RandomWeight(dtype, out, 1, in, bias);
      MatmulOptions with = options;
      if (options.accumulate == Accumulate::kGated) with.gate = {{.table = b.Random(DType::kF32, {1, 3, out})}, 1};
      return PreparedOp{[&b, x, w, with, y] { b.ops().Matmul(x, w, with, y); }, y};
    });
  };
  add("Matmul", {}, false);
  add("Matmul, bias", {}, true);
  add("Matmul, bias and GELU", {.activation = Activation::kGeluTanh}, true);
  add("Matmul, bias and SiLU", {.activation = Activation::kSilu}, true);
  add("Matmul, added", {.accumulate = Accumulate::kAdd}, true);
  add("Matmul, gated and added", {.accumulate = Accumulate::kGated}, true);
}

// A product, its residual, and the following norms.
void AddMatmulThenNorms(Products& all, int64_t rows, int64_t out, int64_t in, DType dtype) {
  all.Add("MatmulThenNorms", Cat(rows, "x", out, "x", in), dtype, [=](Workbench& b) {
    const Tensor x = b.Random(dtype, {rows, in}), residual = b.Random(dtype, {rows, out});
    const Tensor normed = b.Output(dtype, {rows, out});
    const Modulation m{.table = b.Random(DType::kF32, {1, 3, out}, 0.3f)};
    ResidualUpdate update;
    update.x = residual;
    update.gate = {m, 2};
    update.normed[0] = {normed, {m, 0, 1}};
    const Weight w = b.RandomWeight(dtype, out, 1, in, true);
    return PreparedOp{[&b, x, w, update] { b.ops().MatmulThenNorms(x, w, update); }, normed};
  });
}

// Rows that overlap with their neighbours, like the frames into which sound is split.
void AddOverlapping(Products& all, DType dtype) {
  all.Add("Matmul, rows that overlap", "19x32x48", dtype, [=](Workbench& b) {
    const Tensor sound = b.Random(dtype, {18 * 16 + 48}), frames(dtype, {19, 48}, sound.raw(), 16);
    const Tensor y = b.Output(DType::kF32, {19, 32});
    const Weight w = b.RandomWeight(dtype, 32, 1, 48, false);
    return PreparedOp{[&b, frames, w, y] { b.ops().Matmul(frames, w, {}, y); }, y};
  });
}

void AddRewrite(Products& all, DType dtype) {
  static constexpr int64_t rows = 9, out = 24, in = 40;
  all.Add("RewriteWeights", Cat(rows, "x", out, "x", in), dtype, [=](Workbench& b) {
    const Tensor x = b.Random(dtype, {rows, in}), y = b.Output(dtype, {rows, out});
    const Weight w = b.RandomWeight(dtype, out, 1, in, true);
    return PreparedOp{[&b, x, w, y, dtype] {
                        const auto read = [](int64_t begin, int64_t end, void* to) {
                          auto* value = static_cast<float*>(to);
                          for (int64_t i = begin * in; i < end * in; ++i)
                            *value++ = 0.01f * static_cast<float>(i % 37 - 18);
                          return absl::OkStatus();
                        };
                        const WeightRows other{.out = out, .in = in, .read = read};
                        WeightStorage* const storage = w.storage().get();
                        const absl::Status status = b.ops().RewriteWeights(other, dtype, {&storage, 1});
                        if (!status.ok()) b.ops().stream().Fail(status);
                        b.ops().Matmul(x, w, {}, y);
                      },
                      y};
  });
}

struct AttentionCase {
  int64_t queries, keys, width;
  int heads, kv_heads;
  int64_t key_length = -1;
  bool causal = false, bias = false;
};

AttentionOptions OptionsOf(Workbench& b, const AttentionCase& c) {
  AttentionOptions options{.heads = c.heads,
                           .kv_heads = c.kv_heads,
                           .scale = 1.0f / std::sqrt(static_cast<float>(c.width)),
                           .batch = 2,
                           .kv_batches = 2,
                           .kv_batch = {0, 1},
                           .key_length = c.key_length,
                           .causal = c.causal,
                           .window = c.causal ? c.keys / 2 : 0};
  if (c.bias) options.bias = b.Random(DType::kF32, {c.queries, c.keys});
  return options;
}

void AddAttentions(Products& all, const AttentionCase& c, DType dtype) {
  const std::string shape = Cat("2x", c.heads, "x", c.queries, "x", c.keys, "x", c.width, c.bias ? ", bias" : "",
                                c.causal ? ", causal" : "", c.key_length >= 0 ? Cat(", ", c.key_length, " keys") : "");
  const auto draw = [=](Workbench& b, int64_t rows, int heads) {
    return b.Random(dtype, {2 * rows, heads * c.width}, 1.5f);
  };
  all.Add("Attention", shape, dtype, [=](Workbench& b) {
    const Tensor q = draw(b, c.queries, c.heads), k = draw(b, c.keys, c.kv_heads), v = draw(b, c.keys, c.kv_heads);
    const Tensor out = b.Output(dtype, q.shape());
    return PreparedOp{[&b, q, k, v, options = OptionsOf(b, c), out] { b.ops().Attention(q, k, v, options, out); }, out};
  });
  if (c.keys % 8 != 0) return;
  all.Add("AttentionChunks, MergeChunks", shape, dtype, [=](Workbench& b) {
    const Tensor q = draw(b, c.queries, c.heads), k = draw(b, c.keys, c.kv_heads), v = draw(b, c.keys, c.kv_heads);
    const Tensor chunks = b.Output(DType::kF32, {8, 2 * c.queries, c.heads, c.width + 2});
    const Tensor out = b.Output(dtype, q.shape());
    return PreparedOp{[&b, q, k, v, options = OptionsOf(b, c), chunks, out] {
                        b.ops().AttentionChunks(q, k, v, options, chunks);
                        b.ops().MergeChunks(chunks, out);
                      },
                      out};
  });
}

void AddConvs(Products& all, const char* op, const Shape& x_shape, int64_t out_channels, const ConvOptions& options,
              DType dtype, DType result) {
  all.Add(op, Cat(x_shape.ToString(), " to ", out_channels), dtype, [=](Workbench& b) {
    const int64_t taps = int64_t{options.time.kernel} * options.height.kernel * options.width.kernel;
    const Tensor x = b.Random(dtype, x_shape);
    const Weight w = b.RandomWeight(dtype, out_channels, taps, x.width(), true);
    const auto extent = [](int64_t n, const ConvAxis& a) {
      return (n + a.before + a.after - int64_t{a.dilation} * (a.kernel - 1) - 1) / a.stride + 1;
    };
    const Tensor y = b.Random(result, {extent(x_shape[0], options.time), extent(x_shape[1], options.height),
                                       extent(x_shape[2], options.width), out_channels});
    return PreparedOp{[&b, x, w, options, y] { b.ops().Conv(x, w, options, y); }, y};
  });
}

}  // namespace

OpCase NeighbourhoodCase(const SpaceTime& grid, const SpaceTime& window, int heads, int64_t width, DType dtype) {
  const auto shown = [](const SpaceTime& box) { return Cat(box.time, "x", box.height, "x", box.width); };
  const NeighbourhoodOptions options{.heads = heads,
                                     .scale = 1.0f / std::sqrt(static_cast<float>(width)),
                                     .grid = grid,
                                     .window = window,
                                     .queries = grid};
  const auto prepare = [=](Workbench& b) {
    const Shape shape = {grid.product(), heads * width};
    const Tensor q = b.Random(dtype, shape, 1.5f), k = b.Random(dtype, shape, 1.5f), v = b.Random(dtype, shape, 1.5f);
    const Tensor out = b.Output(dtype, shape);
    return PreparedOp{[&b, q, k, v, options, out] { b.ops().NeighbourhoodAttention(q, k, v, options, out); }, out};
  };
  return {"NeighbourhoodAttention", Cat(shown(grid), ", window ", shown(window), ", ", heads, "x", width), dtype,
          prepare};
}

std::vector<OpCase> ProductCases() {
  Products all;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    AddMatmuls(all, 17, 64, 96, dtype);
    AddMatmuls(all, 5, 33, 130, dtype);
    AddMatmuls(all, 300, 128, 264, dtype);
    AddMatmulThenNorms(all, 17, 128, 96, dtype);
    AddOverlapping(all, dtype);
    AddRewrite(all, dtype);
    AddAttentions(all, {.queries = 40, .keys = 64, .width = 128, .heads = 2, .kv_heads = 2}, dtype);
    AddAttentions(all, {.queries = 9, .keys = 200, .width = 64, .heads = 2, .kv_heads = 2, .key_length = 187}, dtype);
    AddAttentions(all, {.queries = 254, .keys = 510, .width = 64, .heads = 2, .kv_heads = 2}, dtype);
    AddAttentions(all, {.queries = 33, .keys = 24, .width = 8, .heads = 2, .kv_heads = 2, .bias = true}, dtype);
    AddAttentions(all, {.queries = 30, .keys = 30, .width = 256, .heads = 2, .kv_heads = 1, .causal = true}, dtype);
    all.cases.push_back(NeighbourhoodCase({12, 13, 21}, {11, 11, 11}, 2, 64, dtype));
    all.cases.push_back(NeighbourhoodCase({3, 9, 10}, {3, 7, 7}, 2, 64, dtype));
    all.cases.push_back(NeighbourhoodCase({2, 5, 7}, {3, 5, 3}, 3, 8, dtype));
    const ConvAxis three{.kernel = 3, .before = 1, .after = 1};
    const ConvAxis reflected{.kernel = 3, .before = 1, .after = 1, .padding = Padding::kReflect};
    const ConvAxis causal{.kernel = 3, .before = 2, .padding = Padding::kReplicate};
    AddConvs(all, "Conv 3x3x3, zeros", {3, 5, 6, 16}, 24, {.time = three, .height = three, .width = three}, dtype,
             dtype);
    AddConvs(all, "Conv 3x3x3, causal, reflected", {3, 5, 6, 16}, 8,
             {.time = causal, .height = reflected, .width = reflected, .activation = Activation::kSilu}, dtype, dtype);
    AddConvs(all, "Conv 1x1, added", {2, 4, 4, 32}, 16, {.accumulate = Accumulate::kAdd}, dtype, dtype);
    AddConvs(all, "Conv 3x3x3, added", {5, 16, 24, 64}, 64,
             {.time = three, .height = three, .width = three, .accumulate = Accumulate::kAdd}, dtype, dtype);
    // The video decoder's last convolution.
    AddConvs(all, "Conv 3x3x3, to float32", {5, 16, 24, 128}, 48, {.time = causal, .height = three, .width = three},
             dtype, DType::kF32);
    AddConvs(all, "Conv of a line, dilated, strided", {1, 1, 41, 12}, 10,
             {.width = {.kernel = 7, .stride = 2, .dilation = 3, .before = 9, .after = 9}}, dtype, dtype);
  }
  return std::move(all.cases);
}

}  // namespace kinora
