#include "engine/base/strings.h"
#include "tests/gpu_check/op_cases.h"

namespace kinora {
namespace {

struct Others {
  std::vector<OpCase> cases{};
  void Add(const char* op, const Shape& shape, DType dtype, std::function<PreparedOp(Workbench&)> prepare) {
    cases.push_back({op, shape.ToString(), dtype, std::move(prepare)});
  }
};

void AddSpaceTime(Others& all, DType dtype) {
  const auto add = [&](const char* op, const Shape& x_shape, const Shape& out_shape,
                       const DepthToSpaceOptions& options) {
    all.Add(op, x_shape, dtype, [=](Workbench& b) {
      const Tensor x = b.Random(dtype, x_shape), out = b.Random(dtype, out_shape);
      return PreparedOp{[&b, x, options, out] { b.ops().DepthToSpace(x, options, out); }, out};
    });
  };
  const SpaceTime doubled{2, 2, 2};
  add("DepthToSpace", {3, 4, 5, 64}, {5, 8, 10, 8}, {.factor = doubled, .drop_first = true});
  add("DepthToSpace, outer channels, added", {2, 3, 4, 64}, {4, 6, 8, 16},
      {.factor = doubled, .channels_outer = true, .accumulate = Accumulate::kAdd});
  add("DepthToSpace, pictures", {2, 3, 5, 48}, {2, 12, 20, 3}, {.factor = {1, 4, 4}});
  all.Add("RepeatNearest", {2, 3, 4, 24}, dtype, [=](Workbench& b) {
    const Tensor x = b.Random(dtype, {2, 3, 4, 24}), out = b.Output(dtype, {2, 6, 8, 24});
    return PreparedOp{[&b, x, out] { b.ops().RepeatNearest(x, {1, 2, 2}, out); }, out};
  });
}

void AddPictures(Others& all) {
  const Shape tile{3, 8, 16, 3}, clip{3, 12, 32, 3};
  all.Add("AddTile", tile, DType::kF32, [=](Workbench& b) {
    const PixelWeights weights{b.Random(DType::kF32, {3}), b.Random(DType::kF32, {8}), b.Random(DType::kF32, {48})};
    const Tensor x = b.Random(DType::kF32, tile), sums = b.Random(DType::kF32, clip);
    const TileBlend blend{.weights = weights, .row = 2, .column = 16};
    return PreparedOp{[&b, x, blend, sums] { b.ops().AddTile(x, blend, sums); }, sums};
  });
  all.Add("FinishRgb8", clip, DType::kF32, [=](Workbench& b) {
    const Tensor sums = b.Random(DType::kF32, clip), rgb8 = b.Bytes(clip);
    const Rgb8Options options{.first_bad = b.Indices({1}, 1)};
    return PreparedOp{[&b, sums, options, rgb8] { b.ops().FinishRgb8(sums, options, rgb8); }, rgb8};
  });
}

void AddLookups(Others& all, DType dtype) {
  all.Add("GatherRows", {50, 72}, dtype, [=](Workbench& b) {
    const Tensor table = b.Random(dtype, {50, 72}), ids = b.Indices({37}, 50), out = b.Output(dtype, {37, 72});
    return PreparedOp{[&b, table, ids, out] { b.ops().GatherRows(table, ids, 1.5f, out); }, out};
  });
  if (dtype != DType::kF32) return;
  all.Add("Increment", {3}, dtype, [](Workbench& b) {
    const Tensor counters = b.Indices({3}, 100);
    return PreparedOp{[&b, counters] { b.ops().Increment(counters); }, counters};
  });
  all.Add("TimestepEmbedding", {5, 256}, dtype, [](Workbench& b) {
    const Tensor t = b.Floats({0.0f, 1.0f, 250.5f, 725.0f, 1000.0f}), out = b.Output(DType::kF32, {5, 256});
    return PreparedOp{[&b, t, out] { b.ops().TimestepEmbedding(t, out); }, out};
  });
  all.Add("RopeTable", {50, 1024}, dtype, [](Workbench& b) {
    const Tensor both = b.Output(DType::kF32, {2, 50, 1024});
    const RopeAngles angles{.fractions = b.Random(DType::kF32, {3, 50}),
                            .frequencies = b.Random(DType::kF32, {341}, /*scale=*/5e3f),
                            .pad = 1};
    const Tensor cos = both.Rows(0, 1).Reshape({50, 1024}), sin = both.Rows(1, 2).Reshape({50, 1024});
    return PreparedOp{[&b, angles, cos, sin] { b.ops().RopeTable(angles, cos, sin); }, both};
  });
}

void AddSound(Others& all) {
  const Shape shape{150, 24};
  for (const auto& [op, function] :
       {std::pair<const char*, PointwiseFunction>{"Pointwise leaky ReLU", {PointwiseFunction::kLeakyRelu, 0.1f}},
        {"Pointwise tanh", {PointwiseFunction::kTanh}},
        {"Pointwise clamp", {PointwiseFunction::kClamp, -0.5f, 0.7f}},
        {"Pointwise log", {PointwiseFunction::kLogFloor, 1e-5f}}}) {
    all.Add(op, shape, DType::kF32, [shape, function = function](Workbench& b) {
      const Tensor x = b.Random(DType::kF32, shape), out = b.Output(DType::kF32, shape);
      return PreparedOp{[&b, x, function, out] { b.ops().Pointwise(x, function, out); }, out};
    });
  }
  all.Add("Snake", shape, DType::kF32, [shape](Workbench& b) {
    const Tensor x = b.Random(DType::kF32, shape), out = b.Output(DType::kF32, shape);
    const AntiAliasedSnake snake{b.Random(DType::kF32, {24}), b.Random(DType::kF32, {24}),
                                 b.Random(DType::kF32, {12}, 0.3f), b.Random(DType::kF32, {12}, 0.3f)};
    return PreparedOp{[&b, x, snake, out] { b.ops().Snake(x, snake, out); }, out};
  });
  all.Add("Magnitude", {40, 66}, DType::kF32, [](Workbench& b) {
    const Tensor x = b.Random(DType::kF32, {40, 66}), out = b.Output(DType::kF32, {40, 33});
    return PreparedOp{[&b, x, out] { b.ops().Magnitude(x, out); }, out};
  });
}

void AddLoop(Others& all) {
  const Shape latent{130, 128}, passes{3 * 130, 128};
  all.Add("PredictX0", passes, DType::kF32, [=](Workbench& b) {
    const Tensor z = b.Random(DType::kF32, latent), v = b.Random(DType::kF32, passes);
    const Tensor sigma = b.Random(DType::kF32, {130}, 0.5f), x0 = b.Output(DType::kF32, passes);
    return PreparedOp{[&b, z, v, sigma, x0] { b.ops().PredictX0(z, v, sigma, x0); }, x0};
  });
  all.Add("CombineGuidance", passes, DType::kF32, [=](Workbench& b) {
    const Tensor x0 = b.Random(DType::kF32, passes), weights = b.Floats({-2.0f, 4.0f, -1.0f, 0.7f});
    const Tensor out = b.Output(DType::kF32, latent);
    return PreparedOp{[&b, x0, weights, out] { b.ops().CombineGuidance(x0, weights, 1, out); }, out};
  });
  all.Add("EulerStep", latent, DType::kF32, [=](Workbench& b) {
    const Tensor x0 = b.Random(DType::kF32, latent), sigmas = b.Floats({0.9f, 0.8f}), z = b.Random(DType::kF32, latent);
    return PreparedOp{[&b, x0, sigmas, z] { b.ops().EulerStep(x0, sigmas, z); }, z};
  });
  all.Add("GuidedEulerStep", passes, DType::kF32, [=](Workbench& b) {
    const Tensor sigmas = b.Floats({0.9f, 0.8f}), z = b.Random(DType::kF32, latent);
    const Prediction prediction{.v = b.Random(DType::kF32, passes),
                                .sigma = sigmas.Rows(0, 1),
                                .weights = b.Floats({-2.0f, 4.0f, -1.0f, 0.7f}),
                                .cond = 1,
                                .x0 = b.Output(DType::kF32, latent)};
    return PreparedOp{[&b, prediction, sigmas, z] { b.ops().GuidedEulerStep(prediction, sigmas, z); }, z};
  });
  all.Add("NormalizeRange", latent, DType::kF32, [=](Workbench& b) {
    const Tensor x = b.Random(DType::kF32, latent), out = b.Output(DType::kF32, latent);
    return PreparedOp{[&b, x, out] { b.ops().NormalizeRange(x, 8.0f, 1e-6f, out); }, out};
  });
}

}  // namespace

std::vector<OpCase> OtherCases() {
  Others all;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    AddSpaceTime(all, dtype);
    AddLookups(all, dtype);
  }
  AddPictures(all);
  AddSound(all);
  AddLoop(all);
  return std::move(all.cases);
}

std::vector<OpCase> AllCases() {
  std::vector<OpCase> all;
  const auto append = [&](std::vector<OpCase> cases) {
    for (OpCase& c : cases) all.push_back(std::move(c));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Shape& shape : {Shape{3, 128}, {37, 384}, {9, 4096}}) append(RowCases(shape[0], shape[1], dtype));
  }
  append(ProductCases());
  append(OtherCases());
  return all;
}

}  // namespace kinora
