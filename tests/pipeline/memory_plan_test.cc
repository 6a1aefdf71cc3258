// Memory reserved on a device with separate memory, and the clips that fit. Needs no device.
#include "engine/pipeline/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/config/released_models.h"
#include "engine/request/request_rules.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<DryModel> TinyOn(const char* device) {
  const std::string models = std::string(KINORA_SOURCE_DIR "/models/tiny/");
  ModelFiles files;
  files.paths = {models + "ltx-2.3-tiny-dev.safetensors"};
  files.text_encoder = models + "gemma";
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(files));
  KINORA_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*checkpoint));
  KINORA_ASSIGN_OR_RETURN(const BackendTraits traits, TraitsOf(device, {}));
  return DryModel::Make(config, Describe(config, {.kind = "dev"}), *Mesh::Single(), {.traits = traits});
}

absl::StatusOr<RunPlan> PlanOf(const DryModel& model, int32_t width, int32_t height, int32_t frames) {
  GenerationRequest request{.prompt = "a red ball", .width = width, .height = height, .num_frames = frames};
  request.recipe = Recipe::kOneStage;
  KINORA_ASSIGN_OR_RETURN(const GenerationRequest resolved, ResolveRequest(model.description(), request));
  return model.Plan(resolved, nullptr);
}

// Reserves memory on a device that has `room` bytes for activations.
absl::StatusOr<ReservedMemory> ReserveIn(const DryModel& model, int64_t room) {
  KINORA_ASSIGN_OR_RETURN(const RunPlan plan, PlanOf(model, 64, 64, 9));
  const int64_t beside = plan.weight_bytes + plan.workspace_bytes + plan.driver_bytes;
  return PlanMemory(model, {.bytes = beside + room, .by = "a test"});
}

TEST(MemoryPlan, ADevicesArenaIsAllThatTheRestLeaves) {
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, TinyOn("cuda"));
  for (const int64_t room : {64 << 20, 256 << 20}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory reserved, ReserveIn(model, room));
    EXPECT_EQ(reserved.arena_bytes, room);
    EXPECT_EQ(reserved.left_bytes, 0);
  }
}

TEST(MemoryPlan, NoMoreIsReservedThanTheLargestClipTakes) {
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, TinyOn("cuda"));
  const RecipeDescription& d = *model.description().Find(Recipe::kOneStage, "");
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan largest, PlanOf(model, d.max_width, d.max_height, d.max_frames));
  KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory reserved, ReserveIn(model, int64_t{1} << 50));
  EXPECT_EQ(reserved.arena_bytes, largest.arena_bytes);
  EXPECT_EQ(reserved.left_bytes, (int64_t{1} << 50) - reserved.arena_bytes);
  EXPECT_TRUE(reserved.Holds(largest));
  KINORA_ASSERT_OK_AND_ASSIGN(const int64_t tokens, MaxTokens(model, reserved));
  EXPECT_EQ(tokens, 0);
}

void ExpectHostHasRoom(const DryModel& model, const ReservedMemory& reserved, int64_t room) {
  const RecipeDescription& d = *model.description().Find(Recipe::kOneStage, "");
  const ReservedMemory device_alone{.arena_bytes = room, .host_arena_bytes = int64_t{1} << 50};
  const int32_t step = 5 * d.size_multiple;
  for (int32_t width = 2 * d.min_size; width <= d.max_width; width += step) {
    for (int32_t height = width; height <= d.max_height; height += 2 * step) {
      KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan any, PlanOf(model, width, height, 1));
      KINORA_ASSERT_OK_AND_ASSIGN(const int32_t frames, MostFrames(model, device_alone, any.request));
      if (frames == 0) continue;
      KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan plan, PlanOf(model, width, height, frames));
      EXPECT_TRUE(reserved.Holds(plan)) << width << "x" << height << "x" << frames << ": " << plan.host_arena_bytes
                                        << " of " << reserved.host_arena_bytes;
    }
  }
}

// Also tests sizes between those that the plan tried.
TEST(MemoryPlan, WhatFitsTheDeviceFitsTheHost) {
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, TinyOn("cuda"));
  for (const int64_t room : {48 << 20, 200 << 20, 900 << 20}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory reserved, ReserveIn(model, room));
    ExpectHostHasRoom(model, reserved, room);
  }
}

// The host holds the noise of a tile, whose size is not that of the clip.
TEST(MemoryPlan, TheHostHasRoomForADecodersNoise) {
  KINORA_ASSERT_OK_AND_ASSIGN(const ModelConfig config, ReleasedModelConfig("ltx-2.5-22b-diffusion-decoder"));
  KINORA_ASSERT_OK_AND_ASSIGN(const BackendTraits traits, TraitsOf("cuda", {}));
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, DryModel::Make(config, Describe(config, {.kind = "dev"}),
                                                                   *Mesh::Single(), {.traits = traits}));
  for (const int64_t gibibytes : {4, 30}) {
    const int64_t room = gibibytes << 30;
    KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory reserved, ReserveIn(model, room));
    ExpectHostHasRoom(model, reserved, room);
  }
}

TEST(MemoryPlan, TheMostFramesFitAndOneMoreDoesNot) {
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, TinyOn("cuda"));
  const RecipeDescription& d = *model.description().Find(Recipe::kOneStage, "");
  KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory reserved, ReserveIn(model, 64 << 20));
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan asked, PlanOf(model, 256, 256, d.max_frames));
  ASSERT_FALSE(reserved.Holds(asked));
  KINORA_ASSERT_OK_AND_ASSIGN(const int32_t frames, MostFrames(model, reserved, asked.request));
  ASSERT_GT(frames, 0);
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan nearest, PlanOf(model, 256, 256, frames));
  EXPECT_TRUE(reserved.Holds(nearest));
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan next, PlanOf(model, 256, 256, frames + d.frame_multiple));
  EXPECT_FALSE(reserved.Holds(next));
}

TEST(MemoryPlan, TheNearestClipThatFitsIsShorterOrWhereNoFrameFitsSmaller) {
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, TinyOn("cpu"));
  const RecipeDescription& d = *model.description().Find(Recipe::kOneStage, "");
  const int32_t width = 16 * d.size_multiple, height = 8 * d.size_multiple;
  const auto needs = [&](int32_t w, int32_t h, int32_t frames) {
    const auto plan = PlanOf(model, w, h, frames);
    KINORA_CHECK(plan.ok()) << plan.status();
    return ReservedMemory{.arena_bytes = plan->arena_bytes};
  };
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan asked, PlanOf(model, width, height, d.max_frames));
  KINORA_ASSERT_OK_AND_ASSIGN(auto nearest, NearestThatFits(model, needs(width, height, 17), asked.request));
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->width, width);
  EXPECT_EQ(nearest->num_frames, 17);

  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan brief, PlanOf(model, width, height, 9));
  const ReservedMemory small = needs(width / 4, height / 4, 9);
  ASSERT_LT(small.arena_bytes, needs(width, height, 1).arena_bytes);
  KINORA_ASSERT_OK_AND_ASSIGN(nearest, NearestThatFits(model, small, brief.request));
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->num_frames, 9);
  EXPECT_GE(nearest->width, width / 4);
  EXPECT_LT(nearest->width, width);
  EXPECT_EQ(nearest->height, nearest->width / 2 / d.size_multiple * d.size_multiple);  // the same aspect ratio
  EXPECT_LE(needs(nearest->width, nearest->height, 9).arena_bytes, small.arena_bytes);
  KINORA_ASSERT_OK_AND_ASSIGN(nearest, NearestThatFits(model, {.arena_bytes = 1}, brief.request));
  EXPECT_FALSE(nearest);
}

TEST(MemoryPlan, ADeviceThatCannotHoldTheModelIsRefusedWithWhatIsFree) {
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, TinyOn("cuda"));
  EXPECT_THAT(PlanMemory(model, {.bytes = 1 << 20, .by = "the device's free memory"}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("the device's free memory leaves 1048576"), HasSubstr("model: "))));
}

TEST(MemoryPlan, WhereMemoryIsOneTheDefaultRequestAlwaysFits) {
  KINORA_ASSERT_OK_AND_ASSIGN(const DryModel model, TinyOn("cpu"));
  KINORA_ASSERT_OK_AND_ASSIGN(const RunPlan usual, PlanOf(model, 0, 0, 0));
  for (const int64_t bytes : {int64_t{1}, int64_t{64} << 30}) {
    KINORA_ASSERT_OK_AND_ASSIGN(const ReservedMemory reserved, PlanMemory(model, {.bytes = bytes, .by = "a test"}));
    EXPECT_TRUE(reserved.Holds(usual));
    EXPECT_EQ(reserved.host_arena_bytes, 0);
    EXPECT_EQ(reserved.left_bytes, 0);
  }
}

}  // namespace
}  // namespace kinora
