// The blocks that the STG pass shares with the conditional pass: the results are those of computing every pass through
// every block, and the work is less.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/base/strings.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/pipeline.h"
#include "tests/pipeline/golden_renders.h"
#include "tests/pipeline/transformer_golden.h"
#include "tests/testing/ranks.h"

namespace kinora {
namespace {

using Floats = std::vector<float>;

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  KINORA_CHECK(value.ok()) << value.status().ToString();
  return *std::move(value);
}

constexpr PerModality<ModalityUse> kBothUpdated = {},
                                   kSoundHeld = {.video = ModalityUse::kUpdated, .audio = ModalityUse::kHeld},
                                   kPictureHeld = {.video = ModalityUse::kHeld, .audio = ModalityUse::kUpdated},
                                   kNoSound = {.video = ModalityUse::kUpdated, .audio = ModalityUse::kAbsent};
const PassList kFour = {Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated};

// The goldens' models have two blocks.
struct Sharing {
  const char* name;
  int64_t shared;  // blocks
  std::vector<int> video_stg, audio_stg;
  PerModality<ModalityUse> use = kBothUpdated;
  PassList passes = kFour;
};

const Sharing kSharings[] = {
    {"none", 0, {0}, {0, 1}},
    {"one", 1, {1}, {1}},
    {"the sound is perturbed first", 0, {1}, {0}},
    {"only the picture is perturbed", 1, {1}, {}},
    {"all, without a perturbed block", 2, {}, {}},
    {"one, the sound's is held", 1, {1}, {0}, kSoundHeld},
    {"one, the picture's is held", 1, {0}, {1}, kPictureHeld},
    {"all, the only perturbed modality is held", 2, {}, {0}, kSoundHeld},
    {"all, the only perturbed modality is absent", 2, {}, {0}, kNoSound},
    {"no pass after the STG pass", 1, {1}, {1}, kBothUpdated, {Pass::kUncond, Pass::kCond, Pass::kPerturbed}},
    {"no pass before the conditional one", 1, {1}, {1}, kBothUpdated, {Pass::kCond, Pass::kPerturbed, Pass::kIsolated}},
    {"two passes", 1, {1}, {1}, kBothUpdated, {Pass::kCond, Pass::kPerturbed}},
    {"the conditional pass is not there", 0, {1}, {1}, kBothUpdated, {Pass::kPerturbed, Pass::kIsolated}},
};

ForwardCase CaseOf(Golden& golden, const Sharing& sharing) {
  ForwardCase c{.golden = golden, .passes = sharing.passes, .context_rows = {0, 1}};
  c.video_stg = sharing.video_stg;
  c.audio_stg = sharing.audio_stg;
  c.use = sharing.use;
  return c;
}

// Clears what a forward pass does not write.
Velocity Written(Velocity v, const PerModality<ModalityUse>& use) {
  if (use.video != ModalityUse::kUpdated) v.video.clear();
  if (use.audio != ModalityUse::kUpdated) v.audio.clear();
  return v;
}

class SharedBlocks : public testing::TestWithParam<std::tuple<const char*, TestedBackend>> {
 protected:
  std::string Name(const std::string& suffix = "") const {
    return std::string("transformer_") + std::get<0>(GetParam()) + suffix;
  }
  const TestedBackend& on() const { return std::get<1>(GetParam()); }
  // The CPU's bits do not depend on the number of rows. CUDA may choose other kernels.
  void ExpectEqual(const Floats& actual, const Floats& expected, DType dtype) const {
    if (std::string_view(on().name) != "cuda") {
      EXPECT_TRUE(actual == expected);
    } else if (!expected.empty()) {
      HostTensor of(DType::kF32, {static_cast<int64_t>(expected.size())});
      std::copy(expected.begin(), expected.end(), of.f32());
      EXPECT_TRUE(Near(actual, of.tensor(), Tolerance(on(), dtype)));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(On, SharedBlocks,
                         testing::Combine(testing::Values("2_0", "2_3"), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

TEST_P(SharedBlocks, GiveTheVelocityOfSeparateOnes) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  ASSERT_EQ(t.config().layers, 2);
  for (const Sharing& sharing : kSharings) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(Cat(sharing.name, ", ", DTypeName(dtype)));
      ForwardCase c = CaseOf(golden, sharing);
      c.dtype = dtype;
      c.on = on();
      const Velocity shared = Written(t.Single(c), c.use);
      c.share_blocks = false;
      const Velocity separate = Written(t.Single(c), c.use);
      ExpectEqual(shared.video, separate.video, dtype);
      ExpectEqual(shared.audio, separate.audio, dtype);
      EXPECT_FALSE(separate.video.empty() && separate.audio.empty());
    }
  }
}

TEST_P(SharedBlocks, AreTappedWithTheRowsOfAllPasses) {
  Golden weights(Name()), golden(Name("_guidance"));
  const TransformerGolden t(weights);
  for (const Sharing& sharing : kSharings) {
    SCOPED_TRACE(sharing.name);
    const auto tapped = [&](bool share) {
      std::map<std::string, Floats, std::less<>> values;
      Taps taps([&](std::string_view name, const Tensor& value) {
        const float* const begin = value.data<float>();
        values[std::string(name)].assign(begin, begin + value.elements());
      });
      ForwardCase c = CaseOf(golden, sharing);
      c.on = on();
      c.taps = &taps;
      c.share_blocks = share;
      t.Single(c);
      return values;
    };
    if (sharing.use.audio == ModalityUse::kAbsent) continue;  // has no rows to tap
    const auto shared = tapped(true), separate = tapped(false);
    ASSERT_EQ(separate.size(), 4u);  // of two blocks in two modalities
    for (const auto& [name, value] : separate) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(shared.contains(name));
      ASSERT_EQ(shared.at(name).size(), value.size());
      ExpectEqual(shared.at(name), value, DType::kF32);
    }
  }
}

TEST(SharedBlocksOnRanks, GiveTheVelocityOfSeparateOnesBitForBit) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_guidance");
  const TransformerGolden t(weights);
  const MeshShape shapes[] = {{.tokens = 2},   {.tensor = 2},   {.tokens = 2, .tensor = 2},
                              {.guidance = 2}, {.guidance = 4}, {.guidance = 2, .tokens = 2}};
  for (const Sharing& sharing : kSharings) {
    if (sharing.use.video != ModalityUse::kUpdated || sharing.use.audio != ModalityUse::kUpdated) continue;
    for (const MeshShape& shape : shapes) {
      SCOPED_TRACE(Cat(sharing.name, ", ", shape.ToString()));
      ForwardCase c = CaseOf(golden, sharing);
      const auto run = [&] { return RunRanks<Velocity>(shape, [&](const Mesh& mesh) { return t.Run(mesh, c); }); };
      const std::vector<Velocity> shared = run();
      c.share_blocks = false;
      const std::vector<Velocity> separate = run();
      EXPECT_TRUE(shared == separate);
      EXPECT_FALSE(separate[0].video.empty());
    }
  }
}

// The bytes that two token ranks exchange show how many passes run through the blocks.
TEST(SharedBlocksOnRanks, AreAsManyAsExpectedAlsoWithTaps) {
  Golden weights("transformer_2_3"), golden("transformer_2_3_guidance");
  const TransformerGolden t(weights);
  for (const Sharing& sharing : kSharings) {
    if (sharing.use.video != ModalityUse::kUpdated) continue;  // sends nothing
    SCOPED_TRACE(sharing.name);
    ForwardCase c = CaseOf(golden, sharing);
    const auto exchanged = [&] {
      const auto ranks = RunRanks<Velocity>({.tokens = 2}, [&](const Mesh& mesh) { return t.Run(mesh, c); });
      return ranks[0].tokens[static_cast<int>(Collective::kAllToAll)].bytes;
    };
    const int64_t shared = exchanged();
    if (sharing.use.audio != ModalityUse::kAbsent) {
      Taps taps([](std::string_view, const Tensor&) {});
      c.taps = &taps;
      EXPECT_EQ(exchanged(), shared);
      c.taps = nullptr;
    }
    c.share_blocks = false;
    const auto all = static_cast<int64_t>(2 * sharing.passes.size());  // passes through the two blocks
    EXPECT_EQ(all * shared, (all - sharing.shared) * exchanged());
  }
}

// Plans count on shapes alone. Guidance as in the defaults, except for the perturbed blocks.
GenerationRequest Perturbing(const std::vector<int32_t>& blocks, Recipe recipe = Recipe::kOneStage) {
  GenerationRequest request{.prompt = "x", .recipe = recipe};
  request.video_guidance = GuidanceParams{.cfg_scale = 3, .stg_scale = 1, .stg_blocks = blocks, .modality_scale = 3};
  request.audio_guidance = GuidanceParams{.cfg_scale = 7, .stg_scale = 1, .stg_blocks = blocks, .modality_scale = 3};
  return request;
}

RunPlan PlanOf(const PipelineOptions& options, const GenerationRequest& request, const MeshShape& shape = {}) {
  return OrDie(Pipeline::Plan(options, *OrDie(MakeDryMesh(shape)), request));
}

// Returns the FLOPs of denoising the default clip with LTX-2.3 22B on rank 0.
double Released(const GenerationRequest& request, const MeshShape& shape = {}) {
  return PlanOf({.released = "ltx-2.3-22b", .device = "cpu"}, request, shape).Find("denoise")->cost.flops;
}

TEST(PlansOfSharedBlocks, TheDefaultClipOfTheReleasedModelTakesLessThanTwentyPetaflop) {
  const RunPlan plan =
      PlanOf({.released = "ltx-2.3-22b", .device = "cpu"}, {.prompt = "x", .recipe = Recipe::kOneStage});
  EXPECT_EQ(plan.request.width, 768);
  EXPECT_EQ(plan.request.height, 512);
  EXPECT_EQ(plan.request.num_frames, 121);
  EXPECT_NEAR(plan.flops() * 1e-15, 19.78, 0.01);
}

TEST(PlansOfSharedBlocks, EachBlockBeforeTheFirstPerturbedOneSavesAQuarterOfABlock) {
  const double none = Released(Perturbing({0})), one = none - Released(Perturbing({1}));
  EXPECT_NEAR(one / none, 1.0 / (4 * 48), 1e-4);  // one pass less of four
  EXPECT_DOUBLE_EQ(none - Released(Perturbing({28})), 28 * one);
  EXPECT_EQ(Released(Perturbing({28, 40})), Released(Perturbing({40, 28})));
}

TEST(PlansOfSharedBlocks, TheFirstOfTwoStagesSharesAsWell) {
  Golden golden("pipeline_two_stage");
  const PipelineOptions options = OptionsOf(golden, DType::kBF16);
  const RunPlan none = PlanOf(options, Perturbing({0}, Recipe::kTwoStage));
  const RunPlan one = PlanOf(options, Perturbing({1}, Recipe::kTwoStage));
  const auto flops = [](const RunPlan& plan, const char* stage) { return plan.Find(stage)->cost.flops; };
  EXPECT_NEAR(flops(one, "denoise_1") / flops(none, "denoise_1"), 1 - 1.0 / (4 * 2), 0.01);
  EXPECT_EQ(flops(one, "denoise_2"), flops(none, "denoise_2"));
}

TEST(PlansOfSharedBlocks, AStepThatHoldsAModalitySharesUpToTheOtherOnesBlocks) {
  GenerationRequest none = Perturbing({0});
  none.audio_guidance->skip_step = 1;  // holds the sound in every second step
  GenerationRequest sound_first = none;
  sound_first.video_guidance->stg_blocks = {28};
  EXPECT_NEAR(Released(sound_first) / Released(none), 1 - 28.0 / (4 * 48) / 2, 0.01);
}

TEST(PlansOfSharedBlocks, PassesOfDifferentRanksShareNothing) {
  for (const int ranks : {2, 4}) {
    const MeshShape shape{.guidance = ranks};
    EXPECT_EQ(Released(Perturbing({28}), shape), Released(Perturbing({0}), shape)) << ranks;
  }
  GenerationRequest shared = Perturbing({28}), separate = Perturbing({0});
  for (GenerationRequest* request : {&shared, &separate}) {
    request->video_guidance->cfg_scale = request->audio_guidance->cfg_scale = 1;  // the first rank has both passes
  }
  const MeshShape two{.guidance = 2};
  EXPECT_NEAR(Released(shared, two) / Released(separate, two), 1 - 28.0 / (2 * 48), 0.01);
}

}  // namespace
}  // namespace kinora
