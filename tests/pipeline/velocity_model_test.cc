// The transformer against the references, on one rank and split over ranks in every way.
#include "engine/pipeline/velocity_model.h"

#include <gtest/gtest.h>

#include "tests/pipeline/transformer_golden.h"
#include "tests/testing/ranks.h"

namespace kinora {
namespace {

using Floats = std::vector<float>;

const double kExact = Tolerance(TestBackend::kCpu, DType::kF32);
const PassList kAllPasses = {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated};

class BothGenerations : public testing::TestWithParam<const char*> {
 protected:
  std::string Name(const std::string& suffix = "") const { return std::string("transformer_") + GetParam() + suffix; }
};
INSTANTIATE_TEST_SUITE_P(Transformer, BothGenerations, testing::Values("2_0", "2_3"));

void ExpectGolden(const Velocity& v, Golden& golden, double tolerance = kExact) {
  EXPECT_TRUE(Near(v.video, golden.Get("out.video"), tolerance));
  EXPECT_TRUE(Near(v.audio, golden.Get("out.audio"), tolerance));
}

// On one rank, with every backend.
class OnABackend : public testing::TestWithParam<std::tuple<const char*, TestedBackend>> {
 protected:
  std::string Name(const std::string& suffix = "") const {
    return std::string("transformer_") + std::get<0>(GetParam()) + suffix;
  }
  const TestedBackend& on() const { return std::get<1>(GetParam()); }
  double tolerance() const { return Tolerance(on(), DType::kF32); }
};
INSTANTIATE_TEST_SUITE_P(Transformer, OnABackend,
                         testing::Combine(testing::Values("2_0", "2_3"), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

TEST_P(OnABackend, VelocityEqualsTheReferenceWithUniformTimesteps) {
  Golden golden(Name());
  const TransformerGolden t(golden);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(DTypeName(dtype));
    TapCheck taps(golden, Tolerance(on(), dtype), GoldenLayout::kPaddedPasses);
    const Velocity v = t.Single({.golden = golden,
                                 .passes = {Pass::kUncond, Pass::kCond},
                                 .context_rows = {0, 1},
                                 .dtype = dtype,
                                 .on = on(),
                                 .taps = &taps.taps()});
    EXPECT_TRUE(taps.Result());
    EXPECT_EQ(taps.compared(), 4);
    ExpectGolden(v, golden, Tolerance(on(), dtype));
  }
}

TEST_P(OnABackend, VelocityEqualsTheReferenceWithATimestepPerToken) {
  Golden weights(Name()), golden(Name("_per_token"));
  ExpectGolden(TransformerGolden(weights).Single({.golden = golden, .on = on()}), golden, tolerance());
}

TEST_P(OnABackend, FourGuidancePassesInOneBatchEqualTheReference) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  ForwardCase c{.golden = golden, .passes = kAllPasses, .context_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}};
  c.on = on();
  ExpectGolden(t.Single(c), golden, tolerance());
  c.use = {.video = ModalityUse::kUpdated, .audio = ModalityUse::kHeld};  // still provides keys and values
  EXPECT_TRUE(Near(t.Single(c).video, golden.Get("out.audio_skipped.video"), tolerance()));
  for (const std::string modality : {"video", "audio"}) {
    ForwardCase only{.golden = golden, .passes = {Pass::kPerturbed}, .context_rows = {0, 1}, .on = on()};
    (modality == "video" ? only.video_stg : only.audio_stg) = {0};
    const Velocity v = t.Single(only);
    EXPECT_TRUE(Near(v.video, golden.Get("out.stg_" + modality + "_only.video"), tolerance())) << modality;
    EXPECT_TRUE(Near(v.audio, golden.Get("out.stg_" + modality + "_only.audio"), tolerance())) << modality;
  }
}

class Ltx23OnABackend : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Transformer, Ltx23OnABackend, testing::ValuesIn(Backends()), BackendName);

TEST_P(Ltx23OnABackend, AFrozenModalityHasNoNoiseAndStillGivesKeys) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_frozen_audio");
  const Velocity v = TransformerGolden(weights).Single({.golden = golden, .audio_sigma = 0, .on = GetParam()});
  ExpectGolden(v, golden, Tolerance(GetParam(), DType::kF32));
}

TEST_P(Ltx23OnABackend, ASelfAttentionMaskEqualsTheReference) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_mask");
  const Velocity v = TransformerGolden(weights).Single({.golden = golden, .on = GetParam()});
  ExpectGolden(v, golden, Tolerance(GetParam(), DType::kF32));
}

TEST_P(Ltx23OnABackend, AStepCapturedForOtherNoiseAndLatentsEqualsAnEagerOneBitForBit) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_guidance");
  const TransformerGolden t(weights);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    ForwardCase c{.golden = golden, .passes = kAllPasses, .context_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}};
    c.dtype = dtype;
    c.on = GetParam();
    const Velocity eager = t.Single(c);
    c.capture = true;
    EXPECT_TRUE(t.Single(c) == eager) << DTypeName(dtype);
  }
}

TEST_P(BothGenerations, AReplayedStepAllocatesNothing) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const ForwardCase c{.golden = golden,
                        .passes = kAllPasses,
                        .context_rows = {0, 1},
                        .video_stg = {1},
                        .dtype = dtype,
                        .capture = true};
    EXPECT_EQ(t.Single(c).allocations, 0);
    for (const MeshShape& shape : {MeshShape{.tokens = 2}, {.guidance = 2}, {.tensor = 2}}) {
      for (const Velocity& v : RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return t.Run(mesh, c); }))
        EXPECT_EQ(v.allocations, 0);
    }
  }
}

// The isolated pass does not attend to the other modality, so a modality's velocity without the other equals that
// pass's.
TEST_P(BothGenerations, AnAbsentModalityLeavesTheOtherAsItsIsolatedPassHasIt) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  ForwardCase c{.golden = golden, .passes = {Pass::kCond, Pass::kIsolated}, .context_rows = {0, 1}};
  const Velocity both = t.Single(c);
  c.passes = {Pass::kCond};
  const auto half = [](const Floats& v) { return Floats(v.begin() + static_cast<int64_t>(v.size() / 2), v.end()); };
  c.use = {.video = ModalityUse::kAbsent, .audio = ModalityUse::kUpdated};
  EXPECT_TRUE(t.Single(c).audio == half(both.audio));
  c.use = {.video = ModalityUse::kUpdated, .audio = ModalityUse::kAbsent};
  EXPECT_TRUE(t.Single(c).video == half(both.video));
}

TEST_P(BothGenerations, TokenAndGuidanceRanksEqualOneRankBitForBit) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const ForwardCase c{.golden = golden,
                        .passes = kAllPasses,
                        .context_rows = {0, 1},
                        .video_stg = {1},
                        .audio_stg = {1},
                        .dtype = dtype};
    const Velocity one = t.Single(c);
    for (const MeshShape& shape :
         {MeshShape{.tokens = 2}, {.tokens = 4}, {.guidance = 2}, {.guidance = 4}, {.guidance = 2, .tokens = 2}}) {
      for (const Velocity& v : RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
        EXPECT_TRUE(v == one) << shape.ToString() << " " << DTypeName(dtype);
      }
    }
  }
}

TEST(Transformer, ThreePassesOnTwoGuidanceRanksEqualOneRankBitForBit) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_guidance");
  const TransformerGolden t(weights);
  for (const PassList& passes : {PassList{Pass::kUncond, Pass::kCond, Pass::kPerturbed},
                                 {Pass::kUncond, Pass::kCond, Pass::kIsolated},
                                 {Pass::kCond}}) {
    const ForwardCase c{.golden = golden, .passes = passes, .context_rows = {0, 1}, .video_stg = {1}, .audio_stg = {0}};
    const Velocity one = t.Single(c);
    for (const Velocity& v : RunRanks<Velocity>({.guidance = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); }))
      EXPECT_TRUE(v == one);
  }
}

TEST_P(BothGenerations, TensorRanksEqualOneRankWithinRounding) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  const ForwardCase c{
      .golden = golden, .passes = kAllPasses, .context_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}};
  for (const MeshShape& shape : {MeshShape{.tensor = 2}, {.tokens = 2, .tensor = 2}}) {
    for (const Velocity& v : RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
      EXPECT_TRUE(Near(v.video, golden.Get("out.video"), 1e-5)) << shape.ToString();
      EXPECT_TRUE(Near(v.audio, golden.Get("out.audio"), 1e-5)) << shape.ToString();
    }
  }
}

TEST(Transformer, ABlockMakesThreeCollectivesForTokensAndOnlySumsForTensor) {
  Golden weights("transformer_2_3");
  const TransformerGolden t(weights);
  const ForwardCase c{.golden = weights};
  const auto calls = [](const CollectiveCounts& counts, Collective op) { return counts[static_cast<int>(op)].calls; };
  const int64_t layers = t.config().layers;
  for (const Velocity& v : RunRanks<Velocity>({.tokens = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
    EXPECT_EQ(calls(v.tokens, Collective::kAllToAll), 2 * layers);
    EXPECT_EQ(calls(v.tokens, Collective::kAllGather), layers + 1);  // and one for the output
    EXPECT_EQ(calls(v.tokens, Collective::kAllReduceSum), 0);
  }
  for (const Velocity& v : RunRanks<Velocity>({.tensor = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); })) {
    // Per block: eight sums of outputs, and six sums of squares for norms over all heads.
    EXPECT_EQ(calls(v.tensor, Collective::kAllReduceSum), 14 * layers);
    EXPECT_EQ(calls(v.tensor, Collective::kAllGather), 0);
    EXPECT_EQ(calls(v.tensor, Collective::kAllToAll), 0);
  }
}

TEST(Transformer, AStepCapturedOnTokenRanksEqualsAnEagerOneOfOneRankBitForBit) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_guidance");
  const TransformerGolden t(weights);
  ForwardCase c{.golden = golden, .passes = kAllPasses, .context_rows = {0, 1}, .video_stg = {1}, .audio_stg = {1}};
  const Velocity eager = t.Single(c);
  c.capture = true;
  for (const Velocity& v : RunRanks<Velocity>({.tokens = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); }))
    EXPECT_TRUE(v == eager);
}

}  // namespace
}  // namespace kinora
