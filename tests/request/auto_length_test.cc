// Clips whose length the model chooses: the rules and the defaults of such requests.
#include "engine/request/auto_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/request/defaults.h"
#include "engine/request/request_rules.h"
#include "tests/request/descriptions.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

ModelDescription Model(const DescriptionOptions& options = {.max_tokens = 0}) {
  ModelDescription model = DescribeModel(options);
  model.parts.duration_head = true;
  return model;
}

GenerationRequest Chosen(const AutoLength& length = {}) {
  GenerationRequest request;
  request.auto_length = length;
  return request;
}

// Returns the descriptions of the violations of a field, on lines of their own.
std::string WrongAt(const std::string& field, const GenerationRequest& asked, const ModelDescription& model = Model()) {
  std::string all;
  for (const FieldViolation& violation : ValidateRequest(model, asked).violations) {
    if (violation.field == field) all += violation.description + "\n";
  }
  return all;
}

TEST(AutoLength, IsKeptWithItsDefaultsAndWithoutANumberOfFrames) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest request, ResolveRequest(Model(), Chosen()));
  EXPECT_EQ(request.num_frames, 0);
  EXPECT_TRUE(FramesAreUnknown(request));
  EXPECT_EQ(request.auto_length, (AutoLength{.min_seconds = 1, .max_seconds = 20}));
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest again, ResolveRequest(Model(), request));
  EXPECT_EQ(again, request);
  const GenerationRequest run = WithFrames(request, 97);
  EXPECT_FALSE(FramesAreUnknown(run));
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest resolved, ResolveRequest(Model(), run));
  EXPECT_EQ(resolved, run);
}

TEST(AutoLength, DefaultsLieWithinTheLimitsOfTheRecipeAndTheOtherBound) {
  const ModelDescription small = Model(Tiny());  // 33 frames at most
  EXPECT_EQ(WithDefaults(small, Chosen()).auto_length, (AutoLength{.min_seconds = 1, .max_seconds = 33.0 / 24}));
  const ModelDescription narrow = Model({});  // 20,000 tokens, 384 per latent frame
  EXPECT_EQ(WithDefaults(narrow, Chosen()).auto_length->max_seconds, 409.0 / 24);
  EXPECT_TRUE(ValidateRequest(narrow, Chosen()).violations.empty());
  GenerationRequest shown = Chosen();
  shown.conditions = {{.media = ConditionInput::Media::kImage, .input_id = "picture", .frame = 9},
                      {.media = ConditionInput::Media::kClip, .input_id = "clip", .append = true}};
  EXPECT_EQ(WithDefaults(narrow, shown).auto_length->max_seconds, 193.0 / 24);
  EXPECT_TRUE(ValidateRequest(narrow, shown).violations.empty());
  EXPECT_EQ(WithDefaults(Model(), Chosen({.max_seconds = 0.5})).auto_length->min_seconds, 9.0 / 24);
  EXPECT_EQ(WithDefaults(Model(), Chosen({.max_seconds = 1})).auto_length->min_seconds, 17.0 / 24);
  EXPECT_EQ(WithDefaults(Model(), Chosen({.min_seconds = 20})).auto_length->max_seconds, 481.0 / 24);
  EXPECT_EQ(WithDefaults(Model(), Chosen({.min_seconds = 20.5})).auto_length->max_seconds, 497.0 / 24);
  for (const double seconds : {0.0, 0.01, 0.5, 1.0, 1.04, 7.3, 20.0, 20.5, 497.0 / 24}) {
    EXPECT_TRUE(ValidateRequest(Model(), Chosen({.max_seconds = seconds})).violations.empty()) << seconds;
    EXPECT_TRUE(ValidateRequest(Model(), Chosen({.min_seconds = seconds})).violations.empty()) << seconds;
  }
}

TEST(AutoLength, IsPlannedForAsTheLongestClip) {
  const ModelDescription model = Model();
  const GenerationRequest request = WithDefaults(model, Chosen({.max_seconds = 5}));
  EXPECT_EQ(AssumedFrames(*model.Find(request.recipe, ""), request), 113);
}

TEST(AutoLength, NeedsADurationHead) {
  EXPECT_THAT(WrongAt("auto_length", Chosen(), DescribeModel({})), HasSubstr("only LTX-2.5 chooses lengths"));
  ModelDescription without = DescribeModel({.family = "ltx-2.5"});
  without.parts.duration_head = false;
  EXPECT_THAT(WrongAt("auto_length", Chosen(), without), HasSubstr("--model duration_head=FILE"));
  EXPECT_EQ(WrongAt("auto_length", Chosen()), "");
}

TEST(AutoLength, CannotBeCombinedWithWhatElseSetsTheLength) {
  GenerationRequest request = Chosen();
  request.num_frames = 9;
  EXPECT_THAT(WrongAt("auto_length", request), HasSubstr("num_frames"));
  request = Chosen();
  request.audio = AudioGuide{.input_id = "song"};
  EXPECT_THAT(WrongAt("auto_length", request), HasSubstr("audio"));
  request = Chosen();
  request.retake = RetakeInput{.input_id = "clip", .end_seconds = 1};
  EXPECT_THAT(WrongAt("auto_length", request), HasSubstr("retake"));
}

TEST(AutoLength, BoundsAreCheckedWithTheNearestValidOne) {
  EXPECT_THAT(WrongAt("auto_length.min_seconds", Chosen({.min_seconds = -1})), HasSubstr("nearest: 0"));
  EXPECT_THAT(WrongAt("auto_length.max_seconds", Chosen({.min_seconds = 3, .max_seconds = 2})),
              HasSubstr("2 is less than min_seconds, 3; exchange them"));
  EXPECT_THAT(WrongAt("auto_length.max_seconds", Chosen({.max_seconds = 100})), HasSubstr("nearest: 20.708"));
  EXPECT_THAT(WrongAt("auto_length.max_seconds", Chosen({.min_seconds = 1, .max_seconds = 1})),
              HasSubstr("no valid number of frames lies between 1 and 1 s; nearest: 1.04167"));
  const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(WrongAt("auto_length.min_seconds", Chosen({.min_seconds = not_a_number})), HasSubstr("finite"));
  EXPECT_THAT(WrongAt("auto_length.max_seconds", Chosen({.max_seconds = not_a_number})), HasSubstr("finite"));
  EXPECT_EQ(WrongAt("auto_length.max_seconds", Chosen({.max_seconds = 497.0 / 24})), "");
  GenerationRequest at_30 = Chosen({.max_seconds = 100});
  at_30.frame_rate = 30;
  EXPECT_THAT(WrongAt("auto_length.max_seconds", at_30), HasSubstr("nearest: 16.566"));
  at_30.auto_length->max_seconds = 16.566;
  EXPECT_EQ(WrongAt("auto_length.max_seconds", at_30), "");
}

// The list of violations is full before the bounds are checked, which must not hide that they are wrong.
TEST(AutoLength, WrongBoundsBehindManyOtherViolationsAreHarmless) {
  GenerationRequest request = Chosen({.min_seconds = std::numeric_limits<double>::infinity(), .max_seconds = -1e300});
  request.conditions.resize(2 * kMaxViolations);
  EXPECT_EQ(ValidateRequest(Model(), request).violations.size(), kMaxViolations);
}

TEST(AutoLength, PicturesLieWithinTheShortestClip) {
  GenerationRequest request = Chosen({.min_seconds = 2});
  request.conditions = {{.media = ConditionInput::Media::kImage, .input_id = "picture", .frame = 48}};
  EXPECT_EQ(WrongAt("conditions[0].frame", request), "") << "49 frames";
  request.conditions[0].frame = 49;
  EXPECT_THAT(WrongAt("conditions[0].frame", request), HasSubstr("of 49 frames; nearest: 48"));
}

TEST(AutoLength, TheLongestClipMustFitTheMemory) {
  const ModelDescription narrow = Model({});  // 20,000 tokens
  GenerationRequest request = Chosen({.max_seconds = 20});
  request.width = 1024;
  request.height = 1024;
  EXPECT_EQ(WrongAt("auto_length.max_seconds", request), "");
  EXPECT_THAT(WrongAt("auto_length.max_seconds", request, narrow),
              HasSubstr("61440 video tokens; at most 20000; nearest at this size: 6.04167"));
  request.auto_length->max_seconds = 6.04167;
  EXPECT_EQ(WrongAt("auto_length.max_seconds", request, narrow), "");
  request.auto_length = AutoLength{.min_seconds = 7, .max_seconds = 20};
  EXPECT_THAT(WrongAt("width", request, narrow), HasSubstr("reduce width or height"));
  request.width = 1000;  // off the grid, which is all that is wrong
  EXPECT_EQ(ValidateRequest(narrow, request).violations.size(), 1u);
}

TEST(ImageCrf, IsTheModels) {
  ModelDescription model = Model();
  GenerationRequest request;
  request.conditions = {{.media = ConditionInput::Media::kImage, .input_id = "picture"}};
  EXPECT_EQ(WithDefaults(model, request).conditions[0].crf, 33);
  model.image_crf = 18;
  EXPECT_EQ(WithDefaults(model, request).conditions[0].crf, 18);
  request.conditions[0].crf = 0;
  EXPECT_EQ(WithDefaults(model, request).conditions[0].crf, 0);
}

// Expected values: ltx_pipelines' seconds_to_clamped_num_frames with round(min · fps) and round(max · fps).
TEST(FramesFromSeconds, AreRoundedToEvenClampedAndPutOnTheGrid) {
  const auto frames = [](double seconds, double rate, double min_seconds = 1, double max_seconds = 20) {
    return FramesFromSeconds(seconds, {.frame_rate = rate, .min_seconds = min_seconds, .max_seconds = max_seconds});
  };
  EXPECT_EQ(frames(5, 24), 113);       // 120 -> 113
  EXPECT_EQ(frames(5.05, 24), 121);    // 121.2
  EXPECT_EQ(frames(5.0208, 24), 113);  // 120.4992
  EXPECT_EQ(frames(5.03125, 32, 0), 161);
  EXPECT_EQ(frames(8.5, 1, 0, 20), 1);   // 8.5 -> 8, below 9
  EXPECT_EQ(frames(9.5, 1, 0, 20), 9);   // 9.5 -> 10
  EXPECT_EQ(frames(0.3, 24), 25);        // at least 24, up to the grid
  EXPECT_EQ(frames(0.001, 30), 33);      // at least 30
  EXPECT_EQ(frames(1e30, 24), 473);      // at most 480
  EXPECT_EQ(frames(2, 25, 2, 2.1), 52);  // 50 -> 57, but at most round(52.5) = 52
  EXPECT_EQ(frames(0, 24, 0, 1), 1);
}

}  // namespace
}  // namespace kinora
