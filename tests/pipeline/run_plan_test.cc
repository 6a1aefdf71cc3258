// The contents of a run's plan: stages, noise levels, tiles, costs.
#include "engine/pipeline/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status_macros.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/pipeline.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;

PipelineOptions TinyModel() {
  const std::string models = KINORA_SOURCE_DIR "/models/tiny/";
  PipelineOptions options;
  options.files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  options.files.text_encoder = models + "gemma";
  return options;
}

GenerationRequest Request() {
  GenerationRequest request{.prompt = "a boat", .width = 96, .height = 64, .num_frames = 17, .frame_rate = 24};
  request.recipe = Recipe::kOneStage;
  request.num_inference_steps = 6;
  return request;
}

absl::StatusOr<RunPlan> PlanOn(const MeshShape& shape, int rank, const GenerationRequest& request) {
  KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeDryMesh(shape, rank));
  return Pipeline::Plan(TinyModel(), *mesh, request);
}

TEST(RunPlan, ListsTheStagesInTheirOrderEachWithItsStepsAndTokens) {
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, PlanOn({}, 0, Request()));
  std::vector<std::string> labels;
  std::vector<int64_t> steps, tokens;
  for (const StagePlan& stage : plan.stages) {
    labels.emplace_back(stage.stage().name());
    steps.push_back(stage.steps);
    tokens.push_back(stage.tokens);
  }
  const int64_t audio = 18;  // 17 frames of 1/24 s at 25 latents per second: 17.7
  EXPECT_THAT(labels, ElementsAre("encode", "denoise", "decode_video", "decode_audio"));
  EXPECT_THAT(steps, ElementsAre(0, 6, 1, 0));
  EXPECT_THAT(tokens, ElementsAre(plan.text_tokens[0] + plan.text_tokens[1], 6 * 4 * (3 * 2 * 3 + audio), 18, audio));
  EXPECT_GT(plan.text_tokens[1], plan.text_tokens[0]);  // the default negative prompt is long
  EXPECT_EQ(plan.audio_stage, 1u);
  EXPECT_EQ(plan.tiles.ToString(), "untiled");
}

TEST(RunPlan, ADenoisingStageHoldsAllThatItsStepsNeed) {
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, PlanOn({}, 0, Request()));
  const StagePlan& stage = plan.stages[1];
  ASSERT_EQ(stage.sigmas.size(), 7u);
  EXPECT_FLOAT_EQ(stage.sigmas[0], 1);
  EXPECT_EQ(stage.sigmas[6], 0);
  EXPECT_THAT(stage.passes, ElementsAre(Pass::kUncond, Pass::kCond, Pass::kPerturbed, Pass::kIsolated));
  EXPECT_EQ(stage.guidance.video.cfg_scale, 3);
  EXPECT_EQ(stage.guidance.audio.cfg_scale, 7);
  EXPECT_EQ(stage.grid.frames, 3);
  EXPECT_EQ(stage.grid.out_width(), 96);
}

TEST(RunPlan, StepsThatKeepBothPredictionsPassOverNoToken) {
  GenerationRequest request = Request();
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan whole, PlanOn({}, 0, request));
  request.video_guidance = request.audio_guidance = GuidanceParams{.cfg_scale = 3, .skip_step = 2};
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan skipping, PlanOn({}, 0, request));
  EXPECT_EQ(skipping.stages[1].tokens, 2 * 2 * (18 + 18));  // steps 0 and 3, two passes
  EXPECT_LT(skipping.stages[1].cost.launches, whole.stages[1].cost.launches);
}

TEST(RunPlan, TwiceTheStepsAreTwiceTheWorkOfDenoisingAndOfNothingElse) {
  GenerationRequest request = Request();
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan six, PlanOn({}, 0, request));
  request.num_inference_steps = 12;
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan twelve, PlanOn({}, 0, request));
  const auto ratio = [](double a, double b) { return a / b; };
  EXPECT_NEAR(ratio(twelve.stages[1].cost.flops, six.stages[1].cost.flops), 2, 0.1);
  EXPECT_NEAR(ratio(twelve.stages[1].cost.bytes, six.stages[1].cost.bytes), 2, 0.1);
  EXPECT_NEAR(ratio(twelve.stages[1].cost.launches, six.stages[1].cost.launches), 2, 0.1);
  for (const int other : {0, 2, 3}) {
    EXPECT_GT(six.stages[other].cost.flops, 0);
    EXPECT_EQ(twelve.stages[other].cost.flops, six.stages[other].cost.flops);
    EXPECT_EQ(twelve.stages[other].cost.launches, six.stages[other].cost.launches);
  }
  EXPECT_DOUBLE_EQ(twelve.flops() - six.flops(), twelve.stages[1].cost.flops - six.stages[1].cost.flops);
}

TEST(RunPlan, RankZeroTakesTheMostMemoryOfAMeshAndMakesTheSoundAlone) {
  for (const MeshShape& shape :
       {MeshShape{.tokens = 2}, {.guidance = 2}, {.guidance = 4}, {.tensor = 2}, {.tokens = 4}}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan first, PlanOn(shape, 0, Request()));
    for (int rank = 1; rank < shape.ranks(); ++rank) {
      KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan other, PlanOn(shape, rank, Request()));
      EXPECT_LE(other.arena_bytes, first.arena_bytes) << shape.ToString() << " rank " << rank;
      EXPECT_EQ(other.weight_bytes, first.weight_bytes) << shape.ToString() << " rank " << rank;
      EXPECT_GT(other.stages[1].cost.flops, 0);
      EXPECT_EQ(other.stages[3].cost.flops, 0);
    }
  }
}

TEST(RunPlan, AScheduleWithoutDistinctLevelsIsRefusedByName) {
  GenerationRequest request = Request();
  request.schedule_tokens = 2'000'000'000;
  EXPECT_THAT(PlanOn({}, 0, request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("schedule_tokens")));
}

}  // namespace
}  // namespace kinora
