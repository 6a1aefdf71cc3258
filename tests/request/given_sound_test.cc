// Clips made for a given sound, and sound without video: the rules and the defaults of such requests.
#include "engine/request/given_sound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine/request/request_rules.h"
#include "tests/request/descriptions.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

AudioGuide Sound(double seconds, double start = 0, int32_t rate = 48000) {
  auto clip = std::make_shared<AudioClip>();
  *clip = {.channels = 2, .samples = std::llround(seconds * rate), .sample_rate = rate};
  return {.input_id = "song", .audio = clip, .start_seconds = start};
}

ModelDescription Model(const DescriptionOptions& options = {}) { return DescribeModel(options); }

GenerationRequest WithSound(const AudioGuide& sound) {
  GenerationRequest request;
  request.audio = sound;
  return request;
}

TEST(GivenSound, TheSpanIsRoundedToWholeSamples) {
  EXPECT_EQ(HeardSpan(Sound(5, 0.1, 44100), 25, 24),
            (SoundSpan{.begin = 4410, .samples = 45938, .sample_rate = 44100}));
  EXPECT_EQ(HeardSpan(Sound(5, 0.1, 11025), 48, 24),
            (SoundSpan{.begin = 1102, .samples = 22050, .sample_rate = 11025}));
  EXPECT_EQ(HeardSpan(AudioGuide{}, 24, 24), (SoundSpan{.samples = 48000, .sample_rate = 48000}));  // not read yet
}

TEST(GivenSound, FramesAreTheMostThatItLastsFor) {
  EXPECT_EQ(FramesHeard(Sound(1), 24, 8), 17);
  EXPECT_EQ(FramesHeard(Sound(25.0 / 24), 24, 8), 25);
  EXPECT_EQ(FramesHeard(Sound(25.0 / 24 - 0.001), 24, 8), 17);
  EXPECT_EQ(FramesHeard(Sound(3, 2), 24, 8), 17);
  EXPECT_EQ(FramesHeard(Sound(1), 24, 16), 17);
  EXPECT_EQ(FramesHeard(Sound(0.01), 24, 8), 0);
  EXPECT_EQ(FramesHeard(Sound(1, 1), 24, 8), 0);
  for (int rate : {8000, 11025, 44100}) {
    for (int samples = rate / 30; samples < 3 * rate; samples += 337) {
      const AudioGuide sound = Sound(static_cast<double>(samples) / rate, 0, rate);
      const int64_t frames = FramesHeard(sound, 29.97, 8);
      ASSERT_LE(HeardSpan(sound, frames, 29.97).samples, samples);
      ASSERT_GT(HeardSpan(sound, frames == 0 ? 1 : frames + 8, 29.97).samples, samples);
    }
  }
}

TEST(GivenSound, DecidesHowLongAClipIsAndIsNotGuided) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest r, ResolveRequest(Model(), WithSound(Sound(3))));
  EXPECT_EQ(r.num_frames, 65);
  EXPECT_EQ(*r.audio_guidance, GuidanceParams{});
  EXPECT_EQ(r.video_guidance->cfg_scale, 3);
  EXPECT_EQ(r.negative_prompt, "blurry");
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest again, ResolveRequest(Model(), r));
  EXPECT_TRUE(again == r);
  GenerationRequest asked = WithSound(Sound(3));
  asked.num_frames = 9;
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest shorter, ResolveRequest(Model(), asked));
  EXPECT_EQ(shorter.num_frames, 9);
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest longest,
                              ResolveRequest(Model({.max_tokens = 1'000'000}), WithSound(Sound(3000))));
  EXPECT_EQ(longest.num_frames, 497);
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest unread, ResolveRequest(Model(), WithSound({.input_id = "song"})));
  EXPECT_EQ(unread.num_frames, 0);  // unknown until it is read
}

struct Mistake {
  std::function<void(GenerationRequest&)> make;
  const char* says;
};

void ExpectRefused(const ModelDescription& model, const GenerationRequest& right, absl::Span<const Mistake> mistakes) {
  ASSERT_THAT(ResolveRequest(model, right), IsOk());
  for (const Mistake& mistake : mistakes) {
    GenerationRequest request = right;
    mistake.make(request);
    EXPECT_THAT(ResolveRequest(model, request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(mistake.says))));
  }
}

// Until the sound is read, the clip's length is unknown, and so is which conditions lie inside it.
TEST(GivenSound, PicturesMayBeShownInAClipOfUnknownLength) {
  ModelDescription model = Model();
  model.parts.video_encoder = true;
  GenerationRequest request = WithSound(AudioGuide{.input_id = "sound"});
  for (const int32_t frame : {0, 24}) {
    request.conditions.push_back({.media = ConditionInput::Media::kImage,
                                  .input_id = "picture",
                                  .pixels = std::make_shared<PixelClip>(PixelClip{.frames = 1}),
                                  .frame = frame});
  }
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
  request.audio = Sound(3);
  EXPECT_THAT(ResolveRequest(model, request), IsOk());
  request.audio = Sound(0.5);
  EXPECT_THAT(ResolveRequest(model, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("conditions[1].frame: 24 is not within 0..8")));
}

TEST(GivenSound, MistakesNameTheFieldAndTheNearestValue) {
  const double nan = std::nan("");
  const Mistake mistakes[] = {
      {[](auto& r) { r.num_frames = 121; },
       "num_frames: 121 frames last longer than the given sound: 3 s, starting at 0; nearest: 65"},
      {[](auto& r) { r.audio->start_seconds = 4; },
       "audio.start_seconds: the sound lasts 3 s, which leaves no frame after 4; nearest: 2.95833"},
      {[=](auto& r) { r.audio->start_seconds = nan; }, "audio.start_seconds: must be a finite number"},
      {[](auto& r) { r.audio->start_seconds = -1; }, "audio.start_seconds: must be 0 or more; nearest: 0"},
      {[=](auto& r) { r.frame_rate = nan; }, "frame_rate: must be a finite number"},
      {[](auto& r) { r.frame_rate = -5; }, "frame_rate: -5 is not within 1..240; nearest: 1"},
      {[](auto& r) { r.audio = Sound(0.01); }, "audio: the sound lasts 0.01 s, less than one frame; give a longer one"},
      {[](auto& r) { r.audio_guidance = GuidanceParams{.cfg_scale = 7}; },
       "audio_guidance: a given sound is not guided; omit it or turn every term off"},
      {[](auto& r) { r.retake = RetakeInput{.end_seconds = 1}; }, "audio: cannot be combined with retake"},
      {[](auto& r) { r.audio = AudioGuide{}; }, "audio: needs a sound; name it in media"},
      {[](auto& r) {
         r.audio = AudioGuide{.audio = std::make_shared<AudioClip>(
                                  AudioClip{.channels = 1, .samples = 3'000'000, .sample_rate = 384'000})};
       },
       "audio: 384000 Hz; the clip's file supports 1000 to 192000"},
  };
  ExpectRefused(Model(), WithSound(Sound(3)), mistakes);
  ModelDescription deaf = Model();
  deaf.parts.audio_encoder = false;
  EXPECT_THAT(ResolveRequest(deaf, WithSound(Sound(3))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("audio: this model was loaded without the audio encoder")));
}

GenerationRequest SoundAlone() {
  GenerationRequest request;
  request.audio_only = true;
  return request;
}

TEST(SoundAlone, HasNoSizeAndNoGuidanceOfAPicture) {
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest r, ResolveRequest(Model(), SoundAlone()));
  EXPECT_EQ(r.width, 0);
  EXPECT_EQ(r.height, 0);
  EXPECT_EQ(r.num_frames, 121);
  EXPECT_EQ(*r.video_guidance, GuidanceParams{});
  EXPECT_EQ(r.audio_guidance->cfg_scale, 7);
  EXPECT_EQ(r.audio_guidance->modality_scale, 1);
  EXPECT_EQ(r.negative_prompt, "blurry");
  KINORA_ASSERT_OK_AND_ASSIGN(const GenerationRequest again, ResolveRequest(Model(), r));
  EXPECT_TRUE(again == r);
}

TEST(SoundAlone, MistakesNameTheFieldAndTheNearestValue) {
  ModelDescription model = Model();
  RecipeDescription two = model.recipes[0];
  two.recipe = Recipe::kTwoStage;
  two.upsampler = "x2";
  model.recipes.push_back(two);
  const Mistake mistakes[] = {
      {[](auto& r) { r.width = 64; }, "width: audio_only: there is no picture; omit it"},
      {[](auto& r) { r.height = 64; }, "height: audio_only: there is no picture"},
      {[](auto& r) { r.num_frames = 120; }, "num_frames: 120 is not 1 more than a multiple of 8; nearest: 121"},
      {[](auto& r) { r.num_frames = 4001; }, "num_frames: 4001 is too large; nearest: 497"},
      {[](auto& r) { r.video_guidance = GuidanceParams{.cfg_scale = 3}; }, "video_guidance: audio_only"},
      {[](auto& r) { r.audio_guidance = GuidanceParams{.modality_scale = 3}; },
       "audio_guidance.modality_scale: audio_only: there is no picture to guide the sound; nearest: 1"},
      {[](auto& r) { r.schedule_tokens = -1; }, "schedule_tokens: -1 means the picture's token count"},
      {[](auto& r) { r.recipe = Recipe::kTwoStage; },
       "recipe: TWO_STAGE has two stages, but audio_only uses one; nearest: ONE_STAGE"},
      {[](auto& r) { r.audio = Sound(30); }, "audio: cannot be combined with audio_only"},
      {[](auto& r) { r.retake = RetakeInput{.end_seconds = 1}; }, "retake: cannot be combined with audio_only"},
      {[](auto& r) { r.conditions = {{.media = ConditionInput::Media::kImage}}; }, "conditions: audio_only"},
  };
  ExpectRefused(model, SoundAlone(), mistakes);
}

// Tests extreme numbers that a client could send, with and without a model.
TEST(GivenSound, NoNumberMakesTheRulesFail) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double value : {std::nan(""), inf, -inf, 1e300, -1e300, 0.0, 1e-300}) {
    for (const int32_t rate : {0, -1, 1, 48000}) {
      GenerationRequest request = WithSound(Sound(1, value, rate));
      request.frame_rate = value;
      (void)ViolationsForAnyModel(request);
      (void)ResolveRequest(Model(), request);
      request.frame_rate = 24;
      request.num_frames = std::numeric_limits<int32_t>::max();
      EXPECT_FALSE(ResolveRequest(Model(), request).ok());
    }
  }
}

}  // namespace
}  // namespace kinora
