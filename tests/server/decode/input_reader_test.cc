#include "server/decode/input_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "tests/server/decode/decode_fixture.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

// Files of data/ by their names.
InputSource Data() {
  return {.decoder = {.binary = KINORA_DECODE_BINARY},
          .open = [](const std::string& id) -> absl::StatusOr<FileDescriptor> {
            FileDescriptor file(open(DataPath(id).c_str(), O_RDONLY | O_CLOEXEC));
            if (!file.ok()) return absl::NotFoundError(id);
            return file;
          }};
}

GenerationRequest Request() { return {.num_frames = 9, .frame_rate = 24}; }
ConditionInput Condition(ConditionInput::Media media, const std::string& id, int32_t frame = 0) {
  return {.media = media, .input_id = id, .frame = frame};
}

TEST(InputReader, FillsInWhatARequestNames) {
  GenerationRequest request = Request();
  request.conditions = {Condition(ConditionInput::Media::kImage, "camera.png"),
                        Condition(ConditionInput::Media::kClip, "clip.mp4", 4)};
  request.audio = AudioGuide{.input_id = "sound.wav", .start_seconds = 0.25};
  ASSERT_THAT(ReadInputs(Data(), request), IsOk());
  const PixelClip& image = *request.conditions[0].pixels;
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded here, DecodeHere(ReadFile(DataPath("camera.png")), {.most_pictures = 1}));
  EXPECT_EQ(image.frames, 1);
  EXPECT_EQ(image.width, here.info.width);
  EXPECT_EQ(image.height, here.info.height);
  EXPECT_EQ(image.rgb, here.pixels[0]);
  const PixelClip& clip = *request.conditions[1].pixels;
  EXPECT_EQ(clip.frames, 5);  // what the video has from frame 4 on
  EXPECT_EQ(std::ssize(clip.rgb), 5 * clip.height * clip.width * 3);
  const AudioClip& sound = *request.audio->audio;
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded whole,
                              DecodeHere(ReadFile(DataPath("sound.wav")), {.sound = 1, .most_seconds = 60}));
  EXPECT_EQ(sound.channels, whole.info.channels);
  EXPECT_EQ(sound.sample_rate, whole.info.samples_per_second);
  ASSERT_GT(sound.samples, 10);
  EXPECT_EQ(std::ssize(sound.waveform), sound.channels * sound.samples);
  for (int64_t i = 0; i < sound.samples; ++i) {
    EXPECT_EQ(sound.waveform[(sound.channels - 1) * sound.samples + i],
              whole.samples[i * sound.channels + sound.channels - 1]);
  }
}

TEST(InputReader, TheH264PassIsTheConditions) {
  GenerationRequest request = Request();
  request.conditions = {Condition(ConditionInput::Media::kImage, "camera.png")};
  request.conditions[0].crf = 33;
  ASSERT_THAT(ReadInputs(Data(), request), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded here,
                              DecodeHere(ReadFile(DataPath("camera.png")), {.crf = 33, .most_pictures = 1}));
  EXPECT_EQ(request.conditions[0].pixels->rgb, here.pixels[0]);
}

TEST(InputReader, ARetakesClipNeedsNoSound) {
  GenerationRequest request = Request();
  request.retake = RetakeInput{.input_id = "clip.mp4"};
  ASSERT_THAT(ReadInputs(Data(), request), IsOk());
  EXPECT_EQ(request.retake->clip->frames, 9);
  KINORA_ASSERT_OK_AND_ASSIGN(const Decoded sound,
                              DecodeHere(ReadFile(DataPath("clip.mp4")), {.sound = 1, .most_seconds = 60}));
  EXPECT_EQ(request.retake->audio != nullptr, sound.info.channels > 0);
}

TEST(InputReader, WhatIsNamedTwiceIsOpenedAndDecodedOnce) {
  std::vector<std::string> opened;
  InputSource source = Data();
  source.open = [&opened, open = source.open](const std::string& id) {
    opened.push_back(id);
    return open(id);
  };
  GenerationRequest request = Request();
  for (const int32_t frame : {0, 8, 8}) {
    request.conditions.push_back(Condition(ConditionInput::Media::kImage, "camera.png", frame));
  }
  request.conditions[2].crf = 33;
  request.retake = RetakeInput{.input_id = "clip.mp4"};
  ASSERT_THAT(ReadInputs(source, request), IsOk());
  EXPECT_EQ(opened, (std::vector<std::string>{"camera.png", "clip.mp4"})) << "its sound is of the same file";
  EXPECT_EQ(request.conditions[0].pixels, request.conditions[1].pixels);
  EXPECT_NE(request.conditions[0].pixels->rgb, request.conditions[2].pixels->rgb);
}

TEST(InputReader, AClipBesideASoundOfOpenLengthIsReadAsFarAsThatLasts) {
  GenerationRequest request{.frame_rate = 24};
  request.conditions = {Condition(ConditionInput::Media::kClip, "clip.mp4")};
  request.audio = AudioGuide{.input_id = "sound.wav"};
  ASSERT_THAT(ReadInputs(Data(), request), IsOk());
  const AudioClip& sound = *request.audio->audio;
  request.audio->start_seconds = (static_cast<double>(sound.samples) - 1) / sound.sample_rate - 2.0 / 24;  // two frames
  ASSERT_THAT(ReadInputs(Data(), request), IsOk());
  EXPECT_EQ(request.conditions[0].pixels->frames, 2);
}

TEST(InputReader, NamesTheInputThatIsWrong) {
  const auto told = [](auto change) {
    GenerationRequest request = Request();
    change(request);
    return ReadInputs(Data(), request);
  };
  const auto condition = [](ConditionInput::Media media, const char* id) {
    return [=](GenerationRequest& request) { request.conditions = {Condition(media, id)}; };
  };
  using Media = ConditionInput::Media;
  EXPECT_THAT(told(condition(Media::kImage, "clip.mp4")),
              StatusIs(StatusCode::kInvalidArgument, "input clip.mp4: it is no image"));
  EXPECT_THAT(told(condition(Media::kClip, "sound.wav")),
              StatusIs(StatusCode::kInvalidArgument, "input sound.wav: it is no clip"));
  EXPECT_THAT(told(condition(Media::kImage, "../make_goldens.py")),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("input ../make_goldens.py: "), HasSubstr("no type that is taken"))));
  EXPECT_THAT(told(condition(Media::kImage, "nothing.png")), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(told([](GenerationRequest& request) { request.audio = AudioGuide{.input_id = "camera.png"}; }),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("input camera.png: it is an image")));
}

}  // namespace
}  // namespace kinora
