#include "engine/ops/dry_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/ops/cpu_ops.h"

namespace kinora {
namespace {

Tensor F32(const Shape& shape) { return Tensor(DType::kF32, shape, nullptr); }
Tensor I32(const Shape& shape) { return Tensor(DType::kI32, shape, nullptr); }

TEST(DryOps, MatmulCostsTwoFlopsAMultiplyAddAndTheBytesOfItsOperands) {
  DryOps ops;
  const Tensor bias = F32({64});
  const Weight w = ops.PrepareWeight(F32({64, 32}), &bias, DType::kBF16).value();
  ops.Matmul(F32({17, 32}), w, {}, F32({17, 64}));
  EXPECT_EQ(ops.parameters(), 64 * 32 + 64);
  EXPECT_EQ(ops.cost().of(OpKind::kMatmul),
            (OpCost{.calls = 1, .flops = 2 * 17 * 32 * 64, .bytes = 17 * 32 * 4 + w.bytes() + 17 * 64 * 4}));
  EXPECT_GE(w.bytes(), 64 * 32 * 2 + 64 * 4);  // the packed layout may pad
}

TEST(DryOps, AnAccumulatingMatmulReadsItsOutputToo) {
  DryOps ops;
  const Weight w = ops.PrepareWeight(F32({8, 8}), nullptr, DType::kF32).value();
  ops.Matmul(F32({4, 8}), w, {}, F32({4, 8}));
  const int64_t bytes = ops.cost().bytes();
  ops.ResetCost();
  ops.Matmul(F32({4, 8}), w, {.accumulate = Accumulate::kAdd}, F32({4, 8}));
  EXPECT_EQ(ops.cost().bytes(), bytes + 4 * 8 * 4);
}

TEST(DryOps, AttentionCountsEveryQueryTimesEveryKeyThatCounts) {
  DryOps ops;
  // 2 sequences of 10 queries, 4 heads of width 16; 12 keys, of which 9 are used; 2 key heads.
  AttentionOptions options{.heads = 4, .kv_heads = 2, .batch = 2, .kv_batches = 1, .key_length = 9};
  ops.Attention(F32({20, 64}), F32({12, 32}), F32({12, 32}), options, F32({20, 64}));
  EXPECT_EQ(ops.cost().of(OpKind::kAttention).flops, 4 * 20 * 9 * 64);
  ops.AttentionChunks(F32({20, 64}), F32({12, 32}), F32({12, 32}), options, F32({4, 20, 4, 18}));
  EXPECT_EQ(ops.cost().of(OpKind::kAttention).flops, 2 * 4 * 20 * 9 * 64);
}

TEST(DryOps, ConvolutionCountsEveryTapOfEveryOutput) {
  DryOps ops;
  const Tensor bias = F32({6});
  const Weight w = ops.PrepareWeight(F32({6, 27, 5}), &bias, DType::kF32).value();
  const ConvAxis same{.kernel = 3, .before = 1, .after = 1};
  ops.Conv(F32({2, 7, 9, 5}), w, {.time = same, .height = same, .width = same}, F32({2, 7, 9, 6}));
  EXPECT_EQ(ops.cost().of(OpKind::kConv).flops, 2 * (2 * 7 * 9) * 27 * 5 * 6);
  EXPECT_EQ(ops.parameters(), 6 * 27 * 5 + 6);
}

TEST(DryOps, AFilterCountsEveryTapOfEveryOutputAndAGroupNormBytes) {
  DryOps ops;
  ops.Blur(F32({2, 6, 9, 5}), F32({5, 5}), 2, F32({2, 3, 5, 5}));
  EXPECT_EQ(ops.cost().of(OpKind::kConv).flops, 2 * (2 * 3 * 5 * 5) * 25);
  EXPECT_DEATH(ops.Blur(F32({2, 6, 9, 5}), F32({5, 5}), 2, F32({2, 3, 4, 5})), "2, 3, 4, 5");
  EXPECT_DEATH(ops.Blur(F32({2, 6, 9, 5}), F32({4, 4}), 2, F32({2, 3, 5, 5})), "4, 4");
  const GroupNormParams params{.weight = F32({64}), .bias = F32({64}), .groups = 32, .samples = 3};
  const Tensor x = F32({3, 4, 64});
  ops.GroupNormThenSilu(x, params, &x, F32({3, 4, 64}));
  EXPECT_EQ(ops.cost().of(OpKind::kNorm), (OpCost{.calls = 1, .bytes = (4 * 3 * 4 * 64 + 2 * 64) * 4}));
  EXPECT_DEATH(ops.GroupNorm(F32({4, 64}), params, F32({4, 64})), "3 samples");
  EXPECT_DEATH(ops.GroupNorm(F32({3, 48}), params, F32({3, 48})), "32 groups");
}

TEST(DryOps, StridedAndDilatedConvolutionsHaveTheirExtents) {
  DryOps ops;
  const Weight w = ops.PrepareWeight(F32({1, 3, 1}), nullptr, DType::kF32).value();
  ops.Conv(F32({1, 1, 11, 1}), w, {.width = {.kernel = 3, .stride = 2, .dilation = 2, .before = 1}}, F32({1, 1, 4, 1}));
  EXPECT_DEATH(ops.Conv(F32({1, 1, 11, 1}), w, {.width = {.kernel = 3, .stride = 2, .dilation = 2}}, F32({1, 1, 3, 1})),
               "1, 1, 11, 1");
}

TEST(DryOps, EveryMistakeOfShapeEndsTheRun) {
  DryOps ops;
  const Weight w = ops.PrepareWeight(F32({8, 16}), nullptr, DType::kF32).value();
  EXPECT_DEATH(ops.Matmul(F32({4, 15}), w, {}, F32({4, 8})), "4, 15");
  EXPECT_DEATH(ops.Matmul(F32({4, 16}), w, {}, F32({5, 8})), "5, 8");
  EXPECT_DEATH(ops.Add(F32({4, 16}), F32({4, 8})), "4, 16");
  EXPECT_DEATH(ops.Attention(F32({4, 24}), F32({4, 24}), F32({4, 24}), {.heads = 2}, F32({4, 24})), "4, 24");
  EXPECT_DEATH(ops.GatherRows(F32({9, 4}), F32({2}), 1, F32({2, 4})), "2");
  EXPECT_DEATH(ops.Modulate(F32({4, 8}), {.modulation = {.table = F32({2, 3, 8})}}, F32({4, 8})), "without rows");
  EXPECT_DEATH(ops.Modulate(F32({4, 8}), {.modulation = {.table = F32({1, 3, 8})}, .shift_slot = 3}, F32({4, 8})),
               "slot 3");
  EXPECT_DEATH(ops.DepthToSpace(F32({2, 2, 2, 12}), {.factor = {1, 2, 2}}, F32({2, 4, 4, 4})), "2, 2, 2, 12");
  const ConvAxis reflect{.kernel = 3, .before = 1, .after = 1, .padding = Padding::kReflect};
  const Weight taps = ops.PrepareWeight(F32({1, 3, 1}), nullptr, DType::kF32).value();
  EXPECT_DEATH(ops.Conv(F32({1, 1, 1, 1}), taps, {.width = reflect}, F32({1, 1, 1, 1})), "reflection");
}

TEST(DryOps, OpsWithoutMultiplyAddsCountBytesOnly) {
  DryOps ops;
  const Modulation modulation{.table = F32({2, 6, 8}), .row = I32({4})};
  ops.ModulatedRmsNorm(F32({8, 8}), {.modulation = modulation, .scale_slot = 1}, 1e-6f, F32({8, 8}));
  ops.GatedAdd(F32({8, 8}), {.modulation = modulation, .slot = 2}, F32({8, 8}));
  ops.EulerStep(F32({4, 2}), F32({2}), F32({4, 2}));
  EXPECT_EQ(ops.cost().flops(), 0);
  EXPECT_EQ(ops.cost().of(OpKind::kNorm).bytes, 2 * 8 * 8 * 4 + 2 * 6 * 8 * 4 + 4 * 4);
  EXPECT_EQ(ops.cost().calls(), 3);
}

TEST(DryOps, WeightsTakeTheBytesThatTheCpuBackendPacksThemInto) {
  DryOps dry;
  const auto cpu = *CpuOps::Create(1);
  for (const Shape& shape : {Shape({64, 32}), Shape({17, 27, 5}), Shape({1, 3}), Shape({48, 9, 130})}) {
    std::vector<float> values(shape.elements(), 1.0f);
    const Tensor matrix(DType::kF32, shape, values.data());
    const Tensor bias(DType::kF32, {shape[0]}, values.data());
    for (DType precision : {DType::kF32, DType::kBF16}) {
      EXPECT_EQ(dry.PrepareWeight(F32(shape), &bias, precision)->bytes(),
                cpu->PrepareWeight(matrix, &bias, precision)->bytes())
          << shape.ToString() << " " << DTypeName(precision);
    }
  }
}

TEST(DryStream, ACapturedGraphCostsAtEachReplay) {
  DryOps ops;
  const auto step = [&] {
    ops.Scale(F32({4, 4}), 2, F32({4, 4}));
    ops.stream().Copy(F32({4, 4}), F32({16}));
  };
  auto graph = ops.stream().Capture(step);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(ops.cost(), Cost());
  step();
  const Cost once = ops.cost();
  (*graph)->Replay();
  Cost twice = once;
  twice += once;
  EXPECT_EQ(ops.cost(), twice);
}

TEST(DryStream, SynchronizeInsideACaptureFailsTheCapture) {
  DryStream stream;
  auto graph = stream.Capture([&] { EXPECT_FALSE(stream.Synchronize().ok()); });
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(stream.Synchronize().ok());
}

}  // namespace
}  // namespace kinora
