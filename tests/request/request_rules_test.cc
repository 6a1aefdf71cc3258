// The request rules: each rule's field and nearest valid value, and the defaults of absent fields.
#include "engine/request/request_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine/request/not_available.h"
#include "engine/request/request_warnings.h"
#include "tests/request/descriptions.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StrEq;

struct Mistake {
  std::function<void(GenerationRequest&)> make;
  const char* field;
  const char* says;
};

// HQ's last step divides by the logarithm of the ratio of the last level to 0.0011, which replaces 0.
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

// The default request of a dev model with one invalid field.
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
       "video_guidance.stg_blocks[1]", "77 is not a block; this model has 0..47; nearest: 47"},
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
       "9 with the recipe's fixed sigmas; nearest: 8"},
      {[](auto& r) {
         r.sigmas = {1, 0.5, 0}, r.num_inference_steps = 3;
       },
       "num_inference_steps", "nearest: 2"},
      {[](auto& r) { r.sigmas = {0}; }, "sigmas", "1 values; must be 2 to 1000, ending in 0"},
      {[](auto& r) { r.sigmas.assign(1001, 0.5); }, "sigmas", "1001 values"},
      {[](auto& r) {
         r.sigmas = {1.5, 0};
       },
       "sigmas[0]", "1.5 is not within 1e-06..1; nearest: 1"},
      {[](auto& r) {
         r.sigmas = {1, 1, 0};
       },
       "sigmas[1]", "must be less than the previous one"},
      {[](auto& r) {
         r.sigmas = {1, 1 - 1e-12, 0};
       },
       "sigmas[1]", "less"},  // equal in float32
      {[](auto& r) {
         r.sigmas = {1e-60, 0};
       },
       "sigmas[0]", "1e-60 is not within 1e-06..1; nearest: 1e-06"},  // 0 in float32
      {[](auto& r) {
         r.sigmas = {1, 1e-40, 0};  // not 0 in float32, but too small to divide by
       },
       "sigmas[1]", "1e-40 is not within 1e-06..1; nearest: 1e-06"},
      {[](auto& r) {
         r.sigmas = {1, 0, 0};
       },
       "sigmas[1]", "0 is not within 1e-06..1; nearest: 1e-06"},
      {[](auto& r) {
         r.sigmas = {1, -1};
       },
       "sigmas[1]", "must be 0, as the last one; nearest: 0"},
      {[](auto& r) {
         r.sigmas = {1, 0.1};
       },
       "sigmas[1]", "must be 0, as the last one; nearest: 0"},
      {[=](auto& r) {
         r.sigmas = {nan, 0};
       },
       "sigmas[0]", "must be a finite number"},
      {[](auto& r) { r.schedule_tokens = -2; }, "schedule_tokens", "must be -1 or more; nearest: -1"},
      {[](auto& r) { r.recipe = Recipe::kDistilled, r.video_guidance = GuidanceParams{.cfg_scale = 3}; },
       "video_guidance", "the recipe DISTILLED has no guidance"},
      {[](auto& r) { r.prompt = std::string(kMaxPromptBytes + 1, 'a'); }, "prompt", "16385 bytes; at most 16384"},
      {[](auto& r) { r.prompt = "a\xff"; }, "prompt", "invalid UTF-8 at byte 1"},
      {[](auto& r) { r.negative_prompt = std::string("a\0b", 3); }, "negative_prompt", "contains a zero byte"},
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
      {[](auto& r) { r.loras = {{.id = "a", .digest = "sha256:ab"}}; }, "loras[0].digest",
       "64 lowercase hexadecimal digits"},
      {[](auto& r) { r.loras = {{.id = "a"}}; }, "loras[0].id", "a: this model was loaded without LoRAs"},
      {[](auto& r) { r.retake = RetakeInput{.start_seconds = 2}; }, "retake.end_seconds", "2 or more; nearest: 2"},
      {[](auto& r) { r.audio = AudioGuide{.start_seconds = -1}; }, "audio.start_seconds", "nearest: 0"},
      {[](auto& r) { r.upsampler = "x3"; }, "upsampler", "not one of x2, x1.5, temporal_x2"},
  };
  for (const Mistake& mistake : mistakes) {
    GenerationRequest request;
    mistake.make(request);
    const Verdict verdict = ValidateRequest(Descriptions()[0], request);
    bool found = false;
    for (const FieldViolation& v : verdict.violations) {
      found |= v.field == mistake.field && v.description.find(mistake.says) != std::string::npos;
    }
    EXPECT_TRUE(found) << mistake.field << ": " << mistake.says << "\n" << JoinViolations(verdict.violations);
    EXPECT_THAT(ResolveRequest(Descriptions()[0], request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(mistake.field) + ": ")));
  }
}

// If a schedule is shifted so far that every noise level is 1, the first step would divide by zero.
TEST(RequestRules, ScheduleTokensThatLeaveNoNoiseLevelAreRefusedAndTheNearestNumberWorks) {
  const ModelDescription model = Descriptions()[0];
  GenerationRequest request;
  request.schedule_tokens = 300'000;
  const Verdict verdict = ValidateRequest(model, request);
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
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loras[1].id: style is given twice")));
  request.loras.resize(1);
  request.loras[0].id = "stile";
  EXPECT_THAT(ResolveRequest(model, request), StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("loras[0].id: stile is not one of this model's LoRAs, "
                                                                 "which are ink, style; `kinora models` lists them")));
}

TEST(RequestRules, AllThatIsWrongIsSaidAtOnceUpToTwenty) {
  GenerationRequest request;
  request.width = request.height = 1;
  request.num_frames = 2;
  request.frame_rate = 1000;
  request.video_guidance.emplace(GuidanceParams{.rescale = 2, .skip_step = -1});
  EXPECT_EQ(ValidateRequest(Descriptions()[0], request).violations.size(), 6u);
  request.conditions.resize(64);
  request.loras.resize(64);
  EXPECT_EQ(ValidateRequest(Descriptions()[0], request).violations.size(), kMaxViolations);
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
  EXPECT_FALSE(ValidateRequest(Descriptions()[0], request).too_large);
  request.width = 8192;
  EXPECT_TRUE(ValidateRequest(Descriptions()[0], request).too_large);
  request.width = request.height = 2048;
  EXPECT_TRUE(ValidateRequest(Descriptions()[0], request).too_large);
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
  EXPECT_FALSE(r.negative_prompt.has_value());  // no guidance term uses it
}

TEST(RequestRules, ARecipeIsNeededWhereTheModelsKindIsNotKnown) {
  EXPECT_THAT(ResolveRequest(Descriptions()[3], {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("recipe: must be set")));
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
                             "(--model distilled_lora=FILE, or --worker-model in a frontend, adds it)")));
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
              StatusIs(absl::StatusCode::kInvalidArgument, StrEq("audio_only: this model generates no sound")));
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
                       HasSubstr("num_frames: 6912 video tokens, including those of conditions; at most 6528; "
                                 "nearest at this size: 113 frames")));
  request.conditions = {{.media = ConditionInput::Media::kClip, .input_id = "a", .frame = 16}};  // to the end
  EXPECT_THAT(ResolveRequest(model, request).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  request.conditions[0].pixels = kPixels;
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
}

TEST(RequestRules, WithoutAModelOnlyWhatNoModelTakesIsRefused) {
  GenerationRequest request;
  request.width = 100;  // a multiple of what some model requires
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

// A description may come from a stored message; the rules must not divide by zero whatever it contains.
TEST(RequestRules, AnEmptyDescriptionRefusesEverythingInOrder) {
  EXPECT_FALSE(ResolveRequest({}, {}).ok());
  ModelDescription model{.default_recipe = Recipe::kOneStage, .recipes = {{.recipe = Recipe::kOneStage}}};
  GenerationRequest request;
  request.width = request.height = request.num_frames = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(ResolveRequest(model, request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("frame_rate")));
  model.recipes[0].max_tokens = 1;
  EXPECT_THAT(ResolveRequest(model, request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("video tokens")));
  request.video_guidance = GuidanceParams{.stg_blocks = {7}};  // the model has no blocks
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

TEST(RequestWarnings, TellOfAFewStepRecipeWithoutDistilledWeights) {
  const auto warnings = [](ModelDescription model, GenerationRequest request) {
    model.trained_shapes.clear();
    return RequestWarnings(model, request);
  };
  ModelDescription dev = Descriptions()[0];
  GenerationRequest request;
  request.recipe = Recipe::kDistilled;
  EXPECT_THAT(warnings(dev, request),
              ElementsAre(AllOf(HasSubstr("DISTILLED takes few steps"), HasSubstr("--model distilled_lora=FILE"),
                                testing::Not(HasSubstr("unless")))));
  request.loras = {{.id = "quick"}};
  EXPECT_THAT(warnings(dev, request), ElementsAre(HasSubstr("unless one of the request's LoRAs distils it")));
  request.recipe = Recipe::kOneStage;
  EXPECT_THAT(warnings(dev, request), IsEmpty());
  request.recipe = Recipe::kDistilled;
  EXPECT_THAT(warnings(Descriptions()[1], request), IsEmpty());  // distilled
  dev.parts.distilled_lora = true;
  EXPECT_THAT(warnings(dev, request), IsEmpty());
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
  EXPECT_EQ(UntrainedShapeWarning(model, request), "");  // trained shapes are unknown
}

}  // namespace
}  // namespace kinora
