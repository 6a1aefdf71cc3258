// Stages of one run that use the ranks as different meshes, with the released transformer on shapes only.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/config/config_reader.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/generation.h"
#include "engine/pipeline/velocity_model.h"
#include "engine/request/request_rules.h"
#include "tests/config/config_files.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

ModelConfig Released() {
  ModelConfig config = ParseConfig(ReadConfigFile("lightricks_2.3")).value();
  config.gemma = GemmaConfig{.global_rope_factor = 8};
  config.spatial_upsampler = UpsamplerConfig{.mid_channels = 1024, .space_up = 2};
  for (int64_t layer = 1; layer <= config.gemma->layers; ++layer) config.gemma->sliding.push_back(layer % 6 != 0);
  return config;
}

TEST(FoldedStages, TheLargestFactorIsTakenThatHeadsAllow) {
  TransformerConfig config;
  const auto shape = [&](const MeshShape& mesh, int64_t heads, size_t passes) {
    config.video.heads = heads;
    const auto made = MakeDryMesh(mesh).value();
    return MeshOfStage(*made, config, passes).shape().ToString();
  };
  EXPECT_EQ(shape({.guidance = 4}, 32, 1), "tokens=4");
  EXPECT_EQ(shape({.guidance = 4}, 2, 1), "guidance=2,tokens=2");
  EXPECT_EQ(shape({.guidance = 4}, 32, 2), "guidance=4");
  EXPECT_EQ(shape({.guidance = 4, .tokens = 4}, 32, 1), "guidance=2,tokens=8");
  EXPECT_EQ(shape({.guidance = 2, .tokens = 2, .tensor = 2}, 4, 1), "guidance=2,tokens=2,tensor=2");
  EXPECT_EQ(shape({.guidance = 2, .tokens = 2, .tensor = 2}, 8, 1), "tokens=4,tensor=2");
  EXPECT_EQ(shape({.tokens = 2}, 32, 1), "tokens=2");
}

struct Calls {
  int64_t tokens = 0, guidance = 0;
  Calls operator-(const Calls& other) const { return {tokens - other.tokens, guidance - other.guidance}; }
};

Calls CallsOf(const Mesh& mesh) {
  Calls calls;
  for (const CollectiveCount& count : mesh.Counts(MeshAxis::kTokens)) calls.tokens += count.calls;
  for (const CollectiveCount& count : mesh.Counts(MeshAxis::kGuidance)) calls.guidance += count.calls;
  return calls;
}

struct StageSeen {
  Calls calls;
  double flops = 0;
};

// Returns the first step of each denoising stage on rank 0: the first stage has four passes, the second one pass of
// twice the size.
std::array<StageSeen, 2> TwoStages(const MeshShape& shape) {
  const ModelConfig config = Released();
  const ModelDescription description = Describe(config, {.kind = "dev", .distilled_lora = true});
  const auto mesh = MakeDryMesh(shape).value();
  DryBackend backend(TraitsOf("cuda", {}).value());
  const WeightLoader loader = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  const Modules modules = Modules::Load(loader, config, {}, [](std::string_view) {}).value();
  GenerationRequest request{.prompt = "a boat", .width = 768, .height = 512, .num_frames = 121, .frame_rate = 24};
  request.recipe = Recipe::kTwoStage;
  request.sigmas = {1.0, 0.0};
  const RunPlan plan = PlanStages(config, description, {.decoder = &*modules.video},
                                  ResolveRequest(description, request).value(), {1024, 1024})
                           .value();
  EXPECT_EQ(plan.Find("denoise_1")->passes.size(), 4u);
  EXPECT_EQ(plan.Find("denoise_2")->passes.size(), 1u);

  Arena arena = Arena::Dry(), host = Arena::Dry();
  Exec exec{.backend = backend, .arena = arena, .host = host, .mesh = *mesh, .dtype = DType::kBF16};
  StepGraphs graphs;
  RopeTables ropes;
  std::array<StageSeen, 2> seen;
  Calls before;
  double flops = 0;
  const auto on_step = [&](const StagePlan& stage, int64_t step, const StepLatents*) {
    if (stage.kind != StageKind::kDenoise) return absl::OkStatus();
    const Calls now = CallsOf(*mesh);
    if (step == 1) {
      seen[stage.part == 2 ? 1 : 0] = {now - before, backend.ops().cost().flops() - flops};
    }
    before = now;
    flops = backend.ops().cost().flops();
    return absl::OkStatus();
  };
  EXPECT_TRUE(Generation(config, modules, graphs, ropes, plan, nullptr, nullptr).Run(exec, on_step).ok());
  return seen;
}

TEST(FoldedStages, TheSecondOfTwoStagesRunsOnTokensWhereTheFirstRanOnGuidance) {
  constexpr int64_t kLayers = 48, kInBlocks = 3 * kLayers + 1;
  const auto one = TwoStages({});
  for (const MeshShape& shape : {MeshShape{.guidance = 2}, {.guidance = 4}, {.guidance = 2, .tokens = 4}}) {
    const auto [first, second] = TwoStages(shape);
    EXPECT_EQ(first.calls.guidance, 1) << shape.ToString();
    EXPECT_EQ(first.calls.tokens, shape.tokens > 1 ? kInBlocks : 0) << shape.ToString();
    EXPECT_EQ(second.calls.guidance, 0) << shape.ToString();
    EXPECT_EQ(second.calls.tokens, kInBlocks) << shape.ToString();
    // The margin is for replicated work: the sound, and keys and values of prompt and sound.
    EXPECT_LT(second.flops, 1.1 * one[1].flops / shape.ranks() + 0.1 * one[1].flops) << shape.ToString();
    EXPECT_LT(first.flops, 1.1 * one[0].flops / shape.ranks() + 0.1 * one[0].flops) << shape.ToString();
  }
}

}  // namespace
}  // namespace kinora
