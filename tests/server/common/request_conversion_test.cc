#include "server/common/request_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

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

TEST(RequestConversionTest, AbsentFieldsStayAbsent) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest request, ToGenerationRequest(Valid()));
  EXPECT_FALSE(request.negative_prompt.has_value());
  EXPECT_FALSE(request.video_guidance.has_value());
  EXPECT_FALSE(request.audio_guidance.has_value());
  EXPECT_TRUE(request.sigmas.empty());
}

TEST(RequestConversionTest, TheWayBackGivesTheSameRequest) {
  v1::Generation g = Valid();
  g.mutable_video_guidance()->set_cfg_scale(3);
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest request, ToGenerationRequest(g));
  const v1::Generation back = ToGeneration(request, v1::Generation());
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest again, ToGenerationRequest(back));
  EXPECT_EQ(again.video_guidance, request.video_guidance);
  EXPECT_EQ(again.recipe, request.recipe);
  EXPECT_EQ(again.seed, request.seed);
  EXPECT_EQ(back.width(), 64);
}

TEST(RequestConversionTest, RecipesKeepTheirNumbers) {
  for (int i = 0; i <= v1::Generation::Recipe_MAX; ++i) {
    EXPECT_EQ(RecipeName(static_cast<Recipe>(i)), v1::Generation::Recipe_Name(static_cast<v1::Generation::Recipe>(i)));
  }
}

TEST(RequestConversionTest, MistakesNameTheField) {
  const double nan = std::nan("");
  const std::pair<const char*, std::function<void(v1::Generation&)>> mistakes[] = {
      {"recipe:", [](auto& g) { g.set_recipe(static_cast<v1::Generation::Recipe>(77)); }},
      {"prompt:", [](auto& g) { g.set_prompt(std::string(kMaxPromptBytes + 1, 'a')); }},
      {"negative_prompt:", [](auto& g) { g.set_negative_prompt(std::string(1 << 20, 'a')); }},
      {"width:", [](auto& g) { g.set_width(-32); }},
      {"height:", [](auto& g) { g.set_height(-1); }},
      {"num_frames:", [](auto& g) { g.set_num_frames(-9); }},
      {"frame_rate:", [=](auto& g) { g.set_frame_rate(nan); }},
      {"frame_rate:", [](auto& g) { g.set_frame_rate(INFINITY); }},
      {"frame_rate:", [](auto& g) { g.set_frame_rate(-24); }},
      {"schedule_tokens:", [](auto& g) { g.set_schedule_tokens(-2); }},
      {"num_inference_steps:", [](auto& g) { g.set_num_inference_steps(-1); }},
      {"sigmas:", [](auto& g) { g.add_sigmas(0); }},
      {"sigmas[1]:", [=](auto& g) { g.add_sigmas(0.5), g.add_sigmas(nan); }},
      {"sigmas[1]:", [](auto& g) { g.add_sigmas(0.5), g.add_sigmas(0.5); }},
      {"sigmas[0]:", [](auto& g) { g.add_sigmas(1.5), g.add_sigmas(0); }},
      {"sigmas:", [](auto& g) { g.add_sigmas(0.5), g.add_sigmas(0.25); }},
      {"sigmas:",
       [](auto& g) {
         for (int i = 0; i <= kMaxSigmas; ++i) g.add_sigmas(1.0 - i / 1000.0);
       }},
      {"num_inference_steps:", [](auto& g) { g.add_sigmas(0.5), g.add_sigmas(0), g.set_num_inference_steps(2); }},
      {"video_guidance.cfg_scale:", [=](auto& g) { g.mutable_video_guidance()->set_cfg_scale(nan); }},
      {"audio_guidance.rescale:", [](auto& g) { g.mutable_audio_guidance()->set_rescale(1.5); }},
      {"video_guidance.stg_blocks[0]:", [](auto& g) { g.mutable_video_guidance()->add_stg_blocks(-1); }},
      {"video_guidance.skip_step:", [](auto& g) { g.mutable_video_guidance()->set_skip_step(-1); }},
      {"conditions:",
       [](auto& g) {
         for (int i = 0; i < 65; ++i) g.add_conditions()->mutable_image();
       }},
      {"conditions[0]:", [](auto& g) { g.add_conditions(); }},
      {"conditions[0].strength:",
       [](auto& g) { g.add_conditions()->mutable_image(), g.mutable_conditions(0)->set_strength(2); }},
      {"loras[0].id:", [](auto& g) { g.add_loras(); }},
      {"loras[0].strength:", [=](auto& g) { g.add_loras()->set_id("a"), g.mutable_loras(0)->set_strength(nan); }},
      {"retake.end_seconds:", [](auto& g) { g.mutable_retake()->set_start_seconds(2); }},
      {"seed:", [](auto& g) { g.clear_seed(); }},
  };
  for (const auto& [field, make] : mistakes) {
    v1::Generation g = Valid();
    make(g);
    EXPECT_THAT(ToGenerationRequest(g), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(field)));
  }
}

TEST(RequestConversionTest, PromptsAreUtf8) {
  v1::Generation g = Valid();
  g.set_prompt("a \u00e9 \u4e00 \U0001f98a \U0010ffff \ud7ff \ue000");
  EXPECT_THAT(CheckGeneration(g), IsOk());
  for (const char* bad :
       {"a\xff", "a\xc0\xaf", "a\xe0\x80\x80", "a\xed\xa0\x80", "a\xf4\x90\x80\x80", "a\xe4\xb8", "a\x80"}) {
    g.set_prompt(bad);
    EXPECT_THAT(CheckGeneration(g),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::StrEq("prompt: is not valid UTF-8 at byte 1")));
  }
}

TEST(RequestConversionTest, WhatIsNotBuiltYetSaysSo) {
  const std::pair<const char*, std::function<void(v1::Generation&)>> parts[] = {
      {"conditions", [](auto& g) { g.add_conditions()->mutable_image()->set_input_id("x"); }},
      {"loras", [](auto& g) { g.add_loras()->set_id("style"); }},
      {"retake", [](auto& g) { g.mutable_retake()->set_end_seconds(1); }},
      {"audio", [](auto& g) { g.mutable_audio(); }},
      {"audio_only", [](auto& g) { g.set_audio_only(true); }},
      {"recipe", [](auto& g) { g.set_recipe(v1::Generation::HQ); }},
  };
  for (const auto& [field, make] : parts) {
    v1::Generation g = Valid();
    make(g);
    EXPECT_THAT(CheckGeneration(g), IsOk()) << field;
    EXPECT_THAT(ToGenerationRequest(g),
                StatusIs(absl::StatusCode::kUnimplemented, testing::Eq(std::string(field) + ": not available yet")));
  }
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
