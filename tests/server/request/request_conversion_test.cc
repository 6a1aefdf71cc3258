#include "server/request/request_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::Generation Valid() {
  v1::Generation g;
  g.set_prompt("a lighthouse");
  g.set_width(64);
  g.set_height(96);
  g.set_num_frames(9);
  g.set_frame_rate(24);
  g.set_seed(uint64_t{1} << 63);
  g.set_recipe(v1::Generation::DISTILLED);
  return g;
}

TEST(RequestConversionTest, CarriesEveryField) {
  v1::Generation g = Valid();
  g.set_negative_prompt("");
  g.set_num_inference_steps(2);
  for (double sigma : {0.9, 0.4, 0.0}) g.add_sigmas(sigma);
  g.set_schedule_tokens(-1);
  g.mutable_video_guidance()->set_cfg_scale(3);
  g.mutable_video_guidance()->add_stg_blocks(28);
  g.mutable_video_guidance()->set_skip_step(1);
  g.mutable_audio_guidance()->set_rescale(0.7);
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest request, ToGenerationRequest(g));
  EXPECT_EQ(request.prompt, "a lighthouse");
  EXPECT_EQ(request.negative_prompt, "");
  EXPECT_EQ(request.width, 64);
  EXPECT_EQ(request.height, 96);
  EXPECT_EQ(request.num_frames, 9);
  EXPECT_EQ(request.frame_rate, 24);
  EXPECT_EQ(request.seed, uint64_t{1} << 63);
  EXPECT_EQ(request.recipe, Recipe::kDistilled);
  EXPECT_EQ(request.num_inference_steps, 2);
  EXPECT_THAT(request.sigmas, testing::ElementsAre(0.9, 0.4, 0));
  EXPECT_EQ(request.schedule_tokens, -1);
  EXPECT_EQ(request.video_guidance, (GuidanceParams{.cfg_scale = 3, .stg_blocks = {28}, .skip_step = 1}));
  EXPECT_EQ(request.audio_guidance, (GuidanceParams{.stg_blocks = {}, .rescale = 0.7}));
}

TEST(RequestConversionTest, GuidanceThatKeepsDefaultsNeedsAModel) {
  v1::Generation g = Valid();
  g.mutable_audio_guidance()->set_keep_defaults(true);
  EXPECT_THAT(ToGenerationRequest(g),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("audio_guidance.keep_defaults: ")));
}

TEST(RequestConversionTest, AbsentFieldsStayAbsent) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest request, ToGenerationRequest(Valid()));
  EXPECT_FALSE(request.negative_prompt.has_value());
  EXPECT_FALSE(request.video_guidance.has_value());
  EXPECT_FALSE(request.audio_guidance.has_value());
  EXPECT_FALSE(request.auto_length.has_value());
  EXPECT_TRUE(request.sigmas.empty());
}

TEST(RequestConversionTest, TheWayBackGivesTheSameRequest) {
  v1::Generation g = Valid();
  g.mutable_video_guidance()->set_cfg_scale(3);
  v1::Condition& image = *g.add_conditions();
  image.mutable_image()->set_input_id("an image");
  image.set_append(true);
  image.set_crf(0);
  g.add_conditions()->mutable_clip()->set_input_id("a clip");
  g.mutable_conditions(1)->set_frame(9);
  g.mutable_conditions(1)->set_strength(0.5);
  g.add_loras()->set_id("style");
  g.mutable_loras(0)->set_strength_stage2(0.25);
  g.mutable_retake()->mutable_clip()->set_input_id("another clip");
  g.mutable_retake()->set_end_seconds(2);
  g.mutable_retake()->set_keep_audio(true);
  g.mutable_audio()->mutable_media()->set_input_id("a sound");
  g.mutable_audio()->set_start_seconds(1);
  g.set_audio_only(true);
  g.set_upsampler("x2");
  g.mutable_auto_length()->set_max_seconds(12.5);
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest request, ToGenerationRequest(g));
  EXPECT_EQ(request.conditions[0].media, ConditionInput::Media::kImage);
  EXPECT_EQ(request.conditions[0].crf, 0);
  EXPECT_EQ(request.conditions[0].strength, 1);
  EXPECT_EQ(request.conditions[1].frame, 9);
  EXPECT_EQ(request.loras[0].strength_stage2, 0.25);
  EXPECT_EQ(request.retake->input_id, "another clip");
  EXPECT_EQ(request.audio->input_id, "a sound");
  EXPECT_EQ(request.auto_length, (AutoLength{.min_seconds = std::nullopt, .max_seconds = 12.5}));
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest again, ToGenerationRequest(ToGeneration(request)));
  EXPECT_EQ(again, request);
}

TEST(RequestConversionTest, RecipesKeepTheirNumbers) {
  for (int i = 0; i <= v1::Generation::Recipe_MAX; ++i) {
    EXPECT_EQ(RecipeName(static_cast<Recipe>(i)), v1::Generation::Recipe_Name(static_cast<v1::Generation::Recipe>(i)));
  }
}

TEST(RequestConversionTest, WhatHasNoPlainFormIsRefusedByField) {
  v1::Generation g = Valid();
  g.set_recipe(static_cast<v1::Generation::Recipe>(77));
  EXPECT_THAT(ToGenerationRequest(g), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("recipe: 77")));
  g = Valid();
  g.clear_seed();
  EXPECT_THAT(ToGenerationRequest(g), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("seed:")));
}

TEST(RequestConversionTest, WhatNoModelCouldAcceptIsRefusedByFieldAllAtOnce) {
  v1::Generation g = Valid();
  EXPECT_THAT(CheckGeneration(g), IsOk());
  g.set_width(-32);
  g.set_frame_rate(std::nan(""));
  g.mutable_video_guidance()->add_stg_blocks(-1);
  g.set_prompt("a\xff");
  EXPECT_THAT(CheckGeneration(g),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("width: "), HasSubstr("frame_rate: must be a finite number"),
                                      HasSubstr("video_guidance.stg_blocks[0]: "),
                                      HasSubstr("prompt: invalid UTF-8 at byte 1"))));
}

TEST(RequestConversionTest, JsonWithUnknownFieldsOrNamesIsRefused) {
  v1::Generation g;
  EXPECT_THAT(ParseJson("--request", R"({"prompt": "a", "numFrames": 9})", g), IsOk());
  EXPECT_THAT(ParseJson("--request", R"({"prompt": "a", "num_frames": 9})", g), IsOk());
  for (const char* json : {R"({"promt": "a"})", R"({"recipe": "FAST"})", R"({"width": "wide"})", "{", ""}) {
    EXPECT_THAT(ParseJson("--request", json, g),
                StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("--request: ")))
        << json;
  }
}

TEST(RequestConversionTest, EmbeddedParametersHoldNoPrompt) {
  v1::Generation g = Valid();
  g.set_negative_prompt("secret words");
  const std::string json = ParametersJson(g);
  EXPECT_THAT(json, HasSubstr("\"seed\":\"9223372036854775808\""));
  EXPECT_THAT(json, Not(HasSubstr("lighthouse")));
  EXPECT_THAT(json, Not(HasSubstr("secret")));
}

TEST(RequestConversionTest, OutputsAreChecked) {
  v1::Output output;
  EXPECT_THAT(CheckOutput(output), IsOk());
  output.set_crf(52);
  EXPECT_THAT(CheckOutput(output), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("crf:")));
  output.set_crf(20);
  output.set_container(static_cast<v1::Output::Container>(9));
  EXPECT_THAT(CheckOutput(output), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("container:")));
}

}  // namespace
}  // namespace kinora
