// The retake rules, and the guidance of its modalities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "engine/request/defaults.h"
#include "engine/request/request_rules.h"
#include "tests/request/descriptions.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

// Returns the error for a retake of a clip of `frames` frames, or "".
std::string Told(int64_t frames, const std::function<void(GenerationRequest& r, ModelDescription& model)>& change) {
  ModelDescription model = Descriptions()[0];
  GenerationRequest request{.num_frames = 121};  // at 24 fps
  request.retake = RetakeInput{.input_id = "a",
                               .clip = std::make_shared<PixelClip>(PixelClip{.frames = frames}),
                               .start_seconds = 1,
                               .end_seconds = 2};
  change(request, model);
  const absl::Status status = ResolveRequest(model, request).status();
  return status.ok() ? "" : std::string(status.message());
}

TEST(RetakeRules, ARetakeLiesWithinItsClipOrMakesAllThatComesAfter) {
  const auto window = [](double start, double end) {
    return
        [=](GenerationRequest& r, ModelDescription&) { r.retake->start_seconds = start, r.retake->end_seconds = end; };
  };
  EXPECT_EQ(Told(121, window(1, 2)), "");
  EXPECT_EQ(Told(500, window(1, 2)), "");
  EXPECT_THAT(Told(121, window(6, 7)), HasSubstr("retake.start_seconds: 6 is not within 0..5.04167; nearest: 5.04167"));
  EXPECT_THAT(Told(121, window(1, 1)), HasSubstr("retake.end_seconds: must be greater than start_seconds"));
  EXPECT_EQ(Told(100, window(4, 6)), "");
  EXPECT_THAT(Told(100, window(4, 5)), HasSubstr("retake.end_seconds: the clip ends at 4.04167 s, so everything from "
                                                 "there to 5.04167 s would be new; nearest: 5.04167, or 97 frames"));
  EXPECT_THAT(Told(100, window(4.5, 6)), HasSubstr("retake.start_seconds: the clip ends at 4.04167 s"));
  EXPECT_THAT(Told(100, [](auto& r, auto&) { r.retake->keep_video = true; }),
              HasSubstr("num_frames: 121 frames, but the kept clip has 100; nearest: 97"));
  EXPECT_THAT(Told(100, [](auto& r, auto&) { r.retake->keep_audio = true; }), HasSubstr("nearest: 97"));
  EXPECT_THAT(Told(0, window(1, 2)), HasSubstr("retake.clip: has no picture"));
  const auto third = [](GenerationRequest& r, ModelDescription&) {
    r.frame_rate = 30;
    r.retake->start_seconds = 3, r.retake->end_seconds = 4.03333;  // the end of 121 frames, as printed
  };
  EXPECT_EQ(Told(100, third), "");
}

TEST(RetakeRules, AWindowThatEndsAfterTheUsualLengthMakesTheClipLonger) {
  const auto frames = [](double end, bool keep_audio, int32_t asked) {
    GenerationRequest request{.num_frames = asked};
    request.retake = RetakeInput{.input_id = "a", .start_seconds = 1, .end_seconds = end, .keep_audio = keep_audio};
    return WithDefaults(Descriptions()[0], request).num_frames;
  };
  EXPECT_EQ(frames(5, false, 0), 121);
  EXPECT_EQ(frames(7, false, 0), 161);        // the clip ends with 168 frames
  EXPECT_EQ(frames(6.70833, false, 0), 161);  // as printed
  EXPECT_EQ(frames(1e9, false, 0), 497);
  ModelDescription unlimited = Descriptions()[0];
  unlimited.recipes[0].max_frames = 0;
  GenerationRequest request;
  request.retake = RetakeInput{.input_id = "a", .start_seconds = 1, .end_seconds = 100};
  EXPECT_EQ(WithDefaults(unlimited, request).num_frames, 2393);  // the nearest of 8·n + 1 to 2400, from below
  EXPECT_EQ(frames(7, true, 0), 121) << "what is kept cannot be longer than it is";
  EXPECT_EQ(frames(7, false, 121), 121);
}

TEST(RetakeRules, ARetakeIsAtItsClipsRate) {
  const auto at = [](double of_clip, double asked) {
    return Told(121, [=](GenerationRequest& r, ModelDescription&) {
      r.retake->clip = std::make_shared<PixelClip>(PixelClip{.frames = 121, .frame_rate = of_clip});
      r.frame_rate = asked;
    });
  };
  EXPECT_EQ(at(24, 0), "");  // the default frame rate
  EXPECT_EQ(at(0, 30), "");  // the frame rate is unknown
  EXPECT_EQ(at(24000.0 / 1001, 23.976), "");
  EXPECT_EQ(at(30, 0), "frame_rate: 24 differs from the frame rate of the retake's clip; nearest: 30");
}

TEST(RetakeRules, WhatARetakeKeepsIsOnlyPerturbed) {
  const ModelDescription model = Descriptions()[0];
  GenerationRequest request;
  request.retake = RetakeInput{.input_id = "a",
                               .clip = std::make_shared<PixelClip>(PixelClip{.frames = 121}),
                               .audio = std::make_shared<AudioClip>(AudioClip{.channels = 2, .samples = 1}),
                               .start_seconds = 1,
                               .end_seconds = 2,
                               .keep_audio = true};
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest effective, ResolveRequest(model, request));
  const GuidanceParams& defaults = *model.recipes[0].defaults.audio_guidance;
  const GuidanceParams perturbed{.stg_scale = defaults.stg_scale, .stg_blocks = defaults.stg_blocks};
  EXPECT_TRUE(perturbed.NeedsPerturbed());
  EXPECT_EQ(effective.audio_guidance, perturbed);
  EXPECT_TRUE(effective.video_guidance->NeedsUncond());
  request.audio_guidance = GuidanceParams{.stg_scale = 2, .stg_blocks = {3}};
  EXPECT_EQ(ResolveRequest(model, request)->audio_guidance, request.audio_guidance);
  request.audio_guidance = GuidanceParams{.stg_scale = 0};
  EXPECT_EQ(ResolveRequest(model, request)->audio_guidance, request.audio_guidance);
  const std::pair<GuidanceParams, const char*> rejected[] = {
      {{.cfg_scale = 7},
       "audio_guidance.cfg_scale: the retake keeps this modality, so only stg_scale and stg_blocks apply to it; "
       "nearest: 1"},
      {{.modality_scale = 3}, "audio_guidance.modality_scale: the retake keeps"},
      {{.rescale = 0.5}, "audio_guidance.rescale: the retake keeps"},
      {{.skip_step = 1}, "audio_guidance.skip_step: the retake keeps"}};
  for (const auto& [guidance, why] : rejected) {
    request.audio_guidance = guidance;
    EXPECT_THAT(ResolveRequest(model, request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
  request.retake->keep_audio = false, request.retake->keep_video = true;
  request.audio_guidance.reset();
  request.video_guidance = GuidanceParams{.cfg_scale = 7};
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("video_guidance.cfg_scale: the retake keeps")));
}

TEST(RetakeRules, KeptSoundMustExist) {
  EXPECT_EQ(Told(121, [](auto& r, auto&) { r.retake->keep_audio = true; }),
            "retake.keep_audio: the clip has no sound; omit it to generate sound");
  EXPECT_EQ(Told(121, [](auto& r, auto&) { r.retake->keep_audio = true, r.retake->clip = nullptr; }), "")
      << "unknown before the clip is read";
}

TEST(RetakeRules, ARetakeTakesWhatItNeedsAndNothingElse) {
  const auto told = [](auto change) { return Told(121, change); };
  EXPECT_THAT(told([](auto& r, auto&) { r.retake->keep_video = r.retake->keep_audio = true; }),
              HasSubstr("retake.keep_audio: cannot be combined with keep_video"));
  EXPECT_THAT(told([](auto& r, auto&) { r.conditions = {{.media = ConditionInput::Media::kImage, .input_id = "a"}}; }),
              HasSubstr("conditions: cannot be combined with retake"));
  EXPECT_THAT(told([](auto&, auto& model) { model.parts.video_encoder = false; }),
              HasSubstr("retake: this model was loaded without the video encoder"));
  const auto deaf = [](bool sound) {
    return [sound](GenerationRequest& r, ModelDescription& model) {
      model.parts.audio_encoder = false;
      if (sound) r.retake->audio = std::make_shared<AudioClip>();
    };
  };
  EXPECT_EQ(told(deaf(false)), "");
  EXPECT_THAT(told(deaf(true)), HasSubstr("retake: this model was loaded without the audio encoder"));
  EXPECT_THAT(told([](auto& r, auto& model) {
                r.recipe = Recipe::kTwoStage;
                model.recipes.push_back(model.recipes[0]);
                model.recipes.back().recipe = Recipe::kTwoStage;
                model.recipes.back().upsampler = "x2";
              }),
              HasSubstr("recipe: TWO_STAGE has two stages, but a retake uses one; nearest: ONE_STAGE"));
}

}  // namespace
}  // namespace kinora
