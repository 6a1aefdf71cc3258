// What a request may be: each rule by its field and its nearest valid value, and what stands for an absent one.
#include "engine/request/request_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine/request/not_available.h"
#include "tests/request/descriptions.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StrEq;

struct Mistake {
  std::function<void(GenerationRequest&)> make;
  const char* field;
  const char* says;
};

// Its last step divides by the logarithm of the last level's ratio to 0.0011, which stands for 0.
TEST(RequestRules, HqTakesNoNoiseLevelBelowTheOneThatStandsForNone) {
  GenerationRequest request;
  request.recipe = Recipe::kHq;
  const auto told = [&](double last) {
    request.sigmas = {1, last, 0};
    for (const FieldViolation& violation : ViolationsForAnyModel(request)) {
      if (violation.field == "sigmas[1]") return violation.description;
    }
    return std::string();
  };
  EXPECT_THAT(told(0.0011), StrEq("0.0011 is not within 0.0012..1; nearest: 0.0012"));
  EXPECT_THAT(told(1e-4), HasSubstr("nearest: 0.0012"));
  EXPECT_THAT(told(0.0012), IsEmpty());
  request.recipe = Recipe::kTwoStage;
  EXPECT_THAT(told(1e-4), IsEmpty());
}

// The default request of a dev model with one thing wrong.
TEST(RequestRules, NameTheFieldAndTheNearestValue) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const Mistake mistakes[] = {
      {[](auto& r) { r.frame_rate = 500; }, "frame_rate", "500 is not within 1..240; nearest: 240"},
      {[](auto& r) { r.frame_rate = 0.5; }, "frame_rate", "0.5 is not within 1..240; nearest: 1"},
      {[=](auto& r) { r.frame_rate = nan; }, "frame_rate", "must be a finite number"},
      {[](auto& r) { r.video_guidance = GuidanceParams{.skip_step = 5000}; }, "video_guidance.skip_step",
       "5000 is not within 0..999; nearest: 999"},
      {[](auto& r) {
         r.video_guidance = GuidanceParams{.stg_scale = 1, .stg_blocks = {28, 77}};
       },
       "video_guidance.stg_blocks[1]", "77 is no block; this model has 0..47; nearest: 47"},
      {[](auto& r) { r.audio_guidance = GuidanceParams{.stg_blocks = {-1}}; }, "audio_guidance.stg_blocks[0]",
       "nearest: 0"},
      {[](auto& r) { r.audio_guidance = GuidanceParams{.stg_blocks = std::vector<int32_t>(1001)}; },
       "audio_guidance.stg_blocks", "1001 of them; at most 1000"},
      {[](auto& r) { r.video_guidance = GuidanceParams{.cfg_scale = -2000}; }, "video_guidance.cfg_scale",
       "nearest: -1000"},
      {[=](auto& r) { r.video_guidance = GuidanceParams{.modality_scale = inf}; }, "video_guidance.modality_scale",
       "must be a finite number"},
      {[](auto& r) { r.video_guidance = GuidanceParams{.rescale = 1.5}; }, "video_guidance.rescale", "nearest: 1"},
      {[](auto& r) { r.width = 100; }, "width", "100 is not a multiple of 32; nearest: 96"},
      {[](auto& r) { r.width = -64; }, "width", "nearest: 32"},
      {[](auto& r) { r.height = std::numeric_limits<int32_t>::max(); }, "height", "too large; nearest: 4096"},
      {[](auto& r) { r.num_frames = 120; }, "num_frames", "120 is not 1 more than a multiple of 8; nearest: 121"},
      {[](auto& r) { r.num_frames = -7; }, "num_frames", "nearest: 1"},
      {[](auto& r) { r.width = 2048, r.height = 2048; }, "num_frames",
       "65536 video tokens; at most 20000; nearest at this size: 25 frames"},
      {[](auto& r) { r.width = r.height = 4096, r.num_frames = 497; }, "num_frames", "nearest at this size: 1 frames"},
      {[](auto& r) { r.num_inference_steps = 1000; }, "num_inference_steps", "nearest: 999"},
      {[](auto& r) { r.recipe = Recipe::kDistilled, r.num_inference_steps = 9; }, "num_inference_steps",
       "9 with the fixed sigmas of the recipe; nearest: 8"},
      {[](auto& r) {
         r.sigmas = {1, 0.5, 0}, r.num_inference_steps = 3;
       },
       "num_inference_steps", "nearest: 2"},
      {[](auto& r) { r.sigmas = {0}; }, "sigmas", "1 values; 2..1000, the last one 0"},
      {[](auto& r) { r.sigmas.assign(1001, 0.5); }, "sigmas", "1001 values"},
      {[](auto& r) {
         r.sigmas = {1.5, 0};
       },
       "sigmas[0]", "1.5 is not within 1e-06..1; nearest: 1"},
      {[](auto& r) {
         r.sigmas = {1, 1, 0};
       },
       "sigmas[1]", "must be less than the one before"},
      {[](auto& r) {
         r.sigmas = {1, 1 - 1e-12, 0};
       },
       "sigmas[1]", "less"},  // equal in float32
      {[](auto& r) {
         r.sigmas = {1e-60, 0};
       },
       "sigmas[0]", "1e-60 is not within 1e-06..1; nearest: 1e-06"},  // 0 in float32
      {[](auto& r) {
         r.sigmas = {1, 1e-40, 0};  // not 0 in float32, and too small to divide by
       },
       "sigmas[1]", "1e-40 is not within 1e-06..1; nearest: 1e-06"},
      {[](auto& r) {
         r.sigmas = {1, 0, 0};
       },
       "sigmas[1]", "0 is not within 1e-06..1; nearest: 1e-06"},
      {[](auto& r) {
         r.sigmas = {1, -1};
       },
       "sigmas[1]", "the last one must be 0; nearest: 0"},
      {[](auto& r) {
         r.sigmas = {1, 0.1};
       },
       "sigmas[1]", "the last one must be 0; nearest: 0"},
      {[=](auto& r) {
         r.sigmas = {nan, 0};
       },
       "sigmas[0]", "must be a finite number"},
      {[](auto& r) { r.schedule_tokens = -2; }, "schedule_tokens", "must be -1 or more; nearest: -1"},
      {[](auto& r) { r.recipe = Recipe::kDistilled, r.video_guidance = GuidanceParams{.cfg_scale = 3}; },
       "video_guidance", "the recipe DISTILLED has no guidance"},
      {[](auto& r) { r.prompt = std::string(kMaxPromptBytes + 1, 'a'); }, "prompt", "16385 bytes; at most 16384"},
      {[](auto& r) { r.prompt = "a\xff"; }, "prompt", "not valid UTF-8 at byte 1"},
      {[](auto& r) { r.negative_prompt = std::string("a\0b", 3); }, "negative_prompt", "holds a zero byte"},
      {[](auto& r) { r.conditions.assign(65, {}); }, "conditions", "65 of them; at most 64"},
      {[](auto& r) { r.conditions.resize(1); }, "conditions[0]", "needs an image or a clip"},
      {[](auto& r) { r.conditions = {{.frame = -1}}; }, "conditions[0].frame", "-1 is not within 0..120; nearest: 0"},
      {[](auto& r) { r.conditions = {{.frame = 121}}; }, "conditions[0].frame",
       "121 is not within 0..120; nearest: 120"},
      {[](auto& r) { r.conditions = {{.strength = 2}}; }, "conditions[0].strength", "nearest: 1"},
      {[](auto& r) { r.conditions = {{.frame = 8, .append = true}}; }, "conditions[0].append", "frame 0 only"},
      {[](auto& r) { r.conditions = {{.crf = 52}}; }, "conditions[0].crf", "nearest: 51"},
      {[](auto& r) { r.loras.resize(1); }, "loras[0].id", "is empty"},
      {[=](auto& r) { r.loras = {{.id = "a", .strength = nan}}; }, "loras[0].strength", "finite"},
      {[](auto& r) { r.loras = {{.id = "a", .strength = -101}}; }, "loras[0].strength", "nearest: -100"},
      {[](auto& r) { r.loras = {{.id = "a", .strength_stage2 = 101}}; }, "loras[0].strength_stage2", "nearest: 100"},
      {[](auto& r) { r.loras = {{.id = "a", .strength_stage2 = 1}}; }, "loras[0].strength_stage2", "has one stage"},
      {[](auto& r) { r.loras = {{.id = "a", .digest = "sha256:ab"}}; }, "loras[0].digest", "64 hexadecimal digits"},
      {[](auto& r) { r.loras = {{.id = "a"}}; }, "loras[0].id", "a: this model was loaded without LoRAs"},
      {[](auto& r) { r.retake = RetakeInput{.start_seconds = 2}; }, "retake.end_seconds", "2 or more; nearest: 2"},
      {[](auto& r) { r.audio = AudioGuide{.start_seconds = -1}; }, "audio.start_seconds", "nearest: 0"},
      {[](auto& r) { r.upsampler = "x3"; }, "upsampler", "not one of x2, x1.5, temporal_x2"},
  };
  for (const Mistake& mistake : mistakes) {
    GenerationRequest request;
    mistake.make(request);
    const Verdict verdict = Judge(Descriptions()[0], request);
    bool found = false;
    for (const FieldViolation& v : verdict.violations) {
      found |= v.field == mistake.field && v.description.find(mistake.says) != std::string::npos;
    }
    EXPECT_TRUE(found) << mistake.field << ": " << mistake.says << "\n" << JoinViolations(verdict.violations);
    EXPECT_THAT(ResolveRequest(Descriptions()[0], request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(mistake.field) + ": ")));
  }
}

// A schedule shifted so far that every noise level is 1 would divide by nothing in the first step.
TEST(RequestRules, ScheduleTokensThatLeaveNoNoiseLevelAreRefusedAndTheNearestNumberWorks) {
  const ModelDescription model = Descriptions()[0];
  GenerationRequest request;
  request.schedule_tokens = 300'000;
  const Verdict verdict = Judge(model, request);
  ASSERT_EQ(verdict.violations.size(), 1u);
  EXPECT_EQ(verdict.violations[0].field, "schedule_tokens");
  const std::string words = verdict.violations[0].description;
  request.schedule_tokens = std::stoi(words.substr(words.find("nearest: ") + 9));
  EXPECT_GT(request.schedule_tokens, 4096);
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
  for (const float level : DevSigmas(model.schedule, 30, request.schedule_tokens)) EXPECT_TRUE(std::isfinite(level));
  ++request.schedule_tokens;
  EXPECT_FALSE(ResolveRequest(model, request).ok());
  request.recipe = Recipe::kDistilled;  // has no such schedule
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
}

TEST(RequestRules, ALoraIsOneOfTheModels) {
  ModelDescription model = Descriptions()[0];
  model.loras = {"ink", "style"};
  GenerationRequest request;
  request.loras = {{.id = "style", .strength = 0.5}, {.id = "ink"}};
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
  request.loras[1].id = "style";
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StrEq("loras[1].id: style is named twice; give it once, with one strength")));
  request.loras.resize(1);
  request.loras[0].id = "stile";
  EXPECT_THAT(
      ResolveRequest(model, request),
      StatusIs(absl::StatusCode::kInvalidArgument,
               StrEq("loras[0].id: stile is not one of this model's LoRAs, which are ink, style; `kinora models` lists "
                     "them, and a file in lora_folder adds one")));
}

TEST(RequestRules, AllThatIsWrongIsSaidAtOnceUpToTwenty) {
  GenerationRequest request;
  request.width = request.height = 1;
  request.num_frames = 2;
  request.frame_rate = 1000;
  request.video_guidance.emplace(GuidanceParams{.rescale = 2, .skip_step = -1});
  EXPECT_EQ(Judge(Descriptions()[0], request).violations.size(), 6u);
  request.conditions.resize(64);
  request.loras.resize(64);
  EXPECT_EQ(Judge(Descriptions()[0], request).violations.size(), kMaxViolations);
}

TEST(RequestRules, ASideTooSmallForTheModelNamesTheSmallest) {
  GenerationRequest request;
  request.width = 32;
  EXPECT_THAT(ResolveRequest(Descriptions()[0], request), IsOk());
  EXPECT_THAT(ResolveRequest(Descriptions()[2], request),
              StatusIs(absl::StatusCode::kInvalidArgument, StrEq("width: 32 is too small; nearest: 64")));
}

TEST(RequestRules, WhatIsTooLargeIsToldFromWhatIsOffTheGrid) {
  GenerationRequest request;
  request.width = 100;
  EXPECT_FALSE(Judge(Descriptions()[0], request).too_large);
  request.width = 8192;
  EXPECT_TRUE(Judge(Descriptions()[0], request).too_large);
  request.width = request.height = 2048;
  EXPECT_TRUE(Judge(Descriptions()[0], request).too_large);
}

TEST(RequestRules, DefaultsAreTheRecipes) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest dev, ResolveRequest(Descriptions()[2], {}));
  EXPECT_EQ(dev.recipe, Recipe::kOneStage);
  EXPECT_EQ(dev.width, 768);
  EXPECT_EQ(dev.num_frames, 121);
  EXPECT_EQ(dev.num_inference_steps, 40);
  EXPECT_EQ(dev.negative_prompt, "blurry");
  EXPECT_EQ(dev.audio_guidance->cfg_scale, 7);
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest distilled, ResolveRequest(Descriptions()[1], {}));
  EXPECT_EQ(distilled.recipe, Recipe::kDistilled);
  EXPECT_EQ(distilled.num_inference_steps, 8);
  EXPECT_FALSE(distilled.video_guidance.has_value());
  EXPECT_FALSE(distilled.negative_prompt.has_value());
}

TEST(RequestRules, AGivenGuidanceIsOffWhereItSaysNothing) {
  GenerationRequest request;
  request.video_guidance.emplace(GuidanceParams{.stg_scale = 1});
  request.audio_guidance.emplace(GuidanceParams{});
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest r, ResolveRequest(Descriptions()[0], request));
  EXPECT_THAT(r.video_guidance->stg_blocks, ElementsAre(28));
  EXPECT_EQ(r.video_guidance->cfg_scale, 1);
  EXPECT_THAT(r.audio_guidance->stg_blocks, IsEmpty());
  EXPECT_FALSE(r.negative_prompt.has_value());  // no term uses one
}

TEST(RequestRules, ARecipeIsNeededWhereTheModelsKindIsNotKnown) {
  EXPECT_THAT(ResolveRequest(Descriptions()[3], {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("recipe: needed")));
  GenerationRequest request;
  request.recipe = Recipe::kDistilled;
  EXPECT_THAT(ResolveRequest(Descriptions()[3], request), IsOk());
}

TEST(RequestRules, ARecipeThatTheModelLacksOrLacksThePartsForIsRefused) {
  ModelDescription model = Descriptions()[0];
  GenerationRequest request;
  request.recipe = Recipe::kDistilled;
  model.recipes[1].needs = {.distilled_lora = true};
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StrEq("recipe: DISTILLED needs the distilled LoRA, which this model was loaded without "
                             "(--model distilled_lora=FILE, of a frontend --worker-model, gives it)")));
  model.parts.distilled_lora = true;
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
  model.recipes.pop_back();
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("DISTILLED is not one of this model's recipes")));
}

TEST(RequestRules, AModelWithoutSoundMakesNone) {
  ModelDescription model = Descriptions()[0];
  model.makes_audio = false;
  GenerationRequest request;
  request.audio_only = true;
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument, StrEq("audio_only: this model makes no sound")));
}

const auto kPixels = std::make_shared<PixelClip>(PixelClip{.frames = 1});

ConditionInput Image(int32_t frame) {
  return {.media = ConditionInput::Media::kImage, .input_id = "a", .pixels = kPixels, .frame = frame};
}

TEST(RequestRules, PicturesNeedAnEncoder) {
  ModelDescription model = Descriptions()[0];
  GenerationRequest request;
  request.conditions = {Image(0)};
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest effective, ResolveRequest(model, request));
  EXPECT_EQ(effective.conditions[0].crf, 33);
  model.parts.video_encoder = false;
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("conditions: this model was loaded without")));
}

TEST(RequestRules, WhatAConditionAppendsCountsAmongTheTokens) {
  ModelDescription model = Descriptions()[0];
  GenerationRequest request;
  const int64_t clip = model.VideoTokens(121, 512, 768), frame = model.VideoTokens(1, 512, 768);
  model.recipes[0].max_tokens = clip + frame;
  request.conditions = {Image(0), Image(120)};
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
  request.conditions.push_back(Image(60));
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_frames: 6912 video tokens, those of conditions among them; at most 6528; "
                                 "nearest at this size: 113 frames")));
  request.conditions = {{.media = ConditionInput::Media::kClip, .input_id = "a", .frame = 16}};  // up to the end
  EXPECT_THAT(ResolveRequest(model, request).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  request.conditions[0].pixels = kPixels;
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
}

// What is wrong with a retake of a clip of so many frames; "": nothing.
std::string Told(int64_t frames, const std::function<void(GenerationRequest& r, ModelDescription& model)>& change) {
  ModelDescription model = Descriptions()[0];
  GenerationRequest request;  // 121 frames, 24 a second
  request.retake = RetakeInput{.input_id = "a",
                               .clip = std::make_shared<PixelClip>(PixelClip{.frames = frames}),
                               .start_seconds = 1,
                               .end_seconds = 2};
  change(request, model);
  const absl::Status status = ResolveRequest(model, request).status();
  return status.ok() ? "" : std::string(status.message());
}

TEST(RequestRules, ARetakeLiesWithinItsClipOrMakesAllThatComesAfter) {
  const auto window = [](double start, double end) {
    return
        [=](GenerationRequest& r, ModelDescription&) { r.retake->start_seconds = start, r.retake->end_seconds = end; };
  };
  EXPECT_EQ(Told(121, window(1, 2)), "");
  EXPECT_EQ(Told(500, window(1, 2)), "");
  EXPECT_THAT(Told(121, window(6, 7)), HasSubstr("retake.start_seconds: 6 is not within 0..5.04167; nearest: 5.04167"));
  EXPECT_THAT(Told(121, window(1, 1)), HasSubstr("retake.end_seconds: nothing lies between"));
  EXPECT_EQ(Told(100, window(4, 6)), "");
  EXPECT_THAT(Told(100, window(4, 5)), HasSubstr("retake.end_seconds: the clip ends at 4.04167 s, and all from there "
                                                 "to 5.04167 s is new; nearest: 5.04167, or 97 frames"));
  EXPECT_THAT(Told(100, window(4.5, 6)), HasSubstr("retake.start_seconds: the clip ends at 4.04167 s"));
  EXPECT_THAT(Told(100, [](auto& r, auto&) { r.retake->keep_video = true; }),
              HasSubstr("num_frames: 121 frames, and the clip that is kept has 100; nearest: 97"));
  EXPECT_THAT(Told(100, [](auto& r, auto&) { r.retake->keep_audio = true; }), HasSubstr("nearest: 97"));
  EXPECT_THAT(Told(0, window(1, 2)), HasSubstr("retake.clip: has no picture"));
  const auto third = [](GenerationRequest& r, ModelDescription&) {
    r.frame_rate = 30;
    r.retake->start_seconds = 3, r.retake->end_seconds = 4.03333;  // of 121 frames, as it is printed
  };
  EXPECT_EQ(Told(100, third), "");
}

TEST(RequestRules, ARetakeIsAtItsClipsRate) {
  const auto at = [](double of_clip, double asked) {
    return Told(121, [=](GenerationRequest& r, ModelDescription&) {
      r.retake->clip = std::make_shared<PixelClip>(PixelClip{.frames = 121, .frame_rate = of_clip});
      r.frame_rate = asked;
    });
  };
  EXPECT_EQ(at(24, 0), "");  // the default
  EXPECT_EQ(at(0, 30), "");  // nobody knows
  EXPECT_EQ(at(24000.0 / 1001, 23.976), "");
  EXPECT_EQ(at(30, 0), "frame_rate: 24 is not that of the retake's clip; nearest: 30");
}

TEST(RequestRules, WhatARetakeKeepsIsNotGuided) {
  GenerationRequest request;
  request.retake = RetakeInput{.input_id = "a",
                               .clip = std::make_shared<PixelClip>(PixelClip{.frames = 121}),
                               .start_seconds = 1,
                               .end_seconds = 2,
                               .keep_audio = true};
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest effective, ResolveRequest(Descriptions()[0], request));
  EXPECT_EQ(effective.audio_guidance, GuidanceParams{});
  EXPECT_TRUE(effective.video_guidance->NeedsUncond());
  request.audio_guidance = GuidanceParams{.cfg_scale = 7};
  EXPECT_THAT(
      ResolveRequest(Descriptions()[0], request),
      StatusIs(absl::StatusCode::kInvalidArgument, StrEq("audio_guidance: is of what the retake keeps, which is "
                                                         "not guided; leave it out or set every term off")));
}

TEST(RequestRules, ARetakeTakesWhatItNeedsAndNothingElse) {
  const auto told = [](auto change) { return Told(121, change); };
  EXPECT_THAT(told([](auto& r, auto&) { r.retake->keep_video = r.retake->keep_audio = true; }),
              HasSubstr("retake.keep_audio: with keep_video nothing is made anew"));
  EXPECT_THAT(told([](auto& r, auto&) { r.conditions = {Image(0)}; }), HasSubstr("conditions: not with a retake"));
  EXPECT_THAT(told([](auto&, auto& model) { model.parts.video_encoder = false; }),
              HasSubstr("retake: this model was loaded without a video encoder"));
  const auto deaf = [](bool sound) {
    return [sound](GenerationRequest& r, ModelDescription& model) {
      model.parts.audio_encoder = false;
      if (sound) r.retake->audio = std::make_shared<AudioClip>();
    };
  };
  EXPECT_EQ(told(deaf(false)), "");
  EXPECT_THAT(told(deaf(true)), HasSubstr("retake: this model was loaded without an audio encoder"));
  EXPECT_THAT(told([](auto& r, auto& model) {
                r.recipe = Recipe::kTwoStage;
                model.recipes.push_back(model.recipes[0]);
                model.recipes.back().recipe = Recipe::kTwoStage;
                model.recipes.back().upsampler = "x2";
              }),
              HasSubstr("recipe: TWO_STAGE has two stages, and a retake is made in one; nearest: ONE_STAGE"));
}

TEST(RequestRules, WithoutAModelOnlyWhatNoModelTakesIsRefused) {
  GenerationRequest request;
  request.width = 100;  // a multiple of what some model needs
  request.video_guidance.emplace(GuidanceParams{.stg_blocks = {1'000'000}});
  EXPECT_THAT(ViolationsForAnyModel(request), IsEmpty());
  request.width = -1;
  request.frame_rate = 500;
  const FieldViolations violations = ViolationsForAnyModel(request);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "width");
  EXPECT_EQ(violations[1].field, "frame_rate");
}

TEST(RequestRules, OutputsAreCheckedToo) {
  EXPECT_THAT(OutputViolations(OutputRequest{.crf = 51}), IsEmpty());
  EXPECT_EQ(JoinViolations(OutputViolations(OutputRequest{.crf = 99, .preview_every_steps = -1})),
            "crf: 99 is not within 0..51; nearest: 51; preview_every_steps: must be 0 or more; nearest: 0");
  EXPECT_EQ(NotAvailable(OutputRequest{.preview_every_steps = 2}), "");
}

// A description may come from a stored message; nothing in it makes the rules divide by zero.
TEST(RequestRules, AnEmptyDescriptionRefusesEverythingInOrder) {
  EXPECT_FALSE(ResolveRequest({}, {}).ok());
  ModelDescription model{.default_recipe = Recipe::kOneStage, .recipes = {{.recipe = Recipe::kOneStage}}};
  GenerationRequest request;
  request.width = request.height = request.num_frames = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(ResolveRequest(model, request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("frame_rate")));
  model.recipes[0].max_tokens = 1;
  EXPECT_THAT(ResolveRequest(model, request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("video tokens")));
  request.video_guidance = GuidanceParams{.stg_blocks = {7}};  // of a model without blocks
  EXPECT_THAT(ResolveRequest(model, request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nearest: 0")));
}

TEST(RequestRules, ASmallestSizeOffTheGridIsTheNextOnIt) {
  ModelDescription model = DescribeModel({.min_size = 48});
  GenerationRequest request{.prompt = "p", .width = 32, .height = 64, .num_frames = 9};
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("width: 32 is too small; nearest: 64")));
  request.width = 64;
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
}

TEST(UntrainedShapeWarning, SaysWhatTheModelWasTrainedOnToWhoAsksForAnotherShape) {
  ModelDescription model = DescribeModel(Tiny());
  model.trained_shapes.push_back({.width = 128, .height = 96, .num_frames = 25});
  GenerationRequest request;
  request.width = request.height = 64;
  request.num_frames = 9;
  EXPECT_EQ(UntrainedShapeWarning(model, request), "");
  request.num_frames = 25;
  EXPECT_THAT(UntrainedShapeWarning(model, request),
              testing::StartsWith("the model was trained on clips of 64x64 with 9 frames, 128x96 with 25 frames; "));
  request.width = 128;
  EXPECT_NE(UntrainedShapeWarning(model, request), "");  // 128x64
  request.audio_only = true;
  EXPECT_EQ(UntrainedShapeWarning(model, request), "");
  request.num_frames = 17;
  EXPECT_NE(UntrainedShapeWarning(model, request), "");
  model.trained_shapes.clear();
  EXPECT_EQ(UntrainedShapeWarning(model, request), "");  // nothing is known
}

}  // namespace
}  // namespace kinora
