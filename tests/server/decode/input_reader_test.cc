#include "server/decode/input_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/server/decode/decode_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

// Files in data/ by name.
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
  EXPECT_EQ(image.rgb, here.pictures[0]);
  const PixelClip& clip = *request.conditions[1].pixels;
  EXPECT_EQ(clip.frames, 5);  // the rest of the video from frame 4 on
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
  EXPECT_EQ(request.conditions[0].pixels->rgb, here.pictures[0]);
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

// Returns a WAV file in which all samples are equal.
std::string WavOf(int32_t channels, int32_t rate, int32_t samples) {
  const auto little = [](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
    return text;
  };
  const uint32_t frame = 2 * channels, bytes = frame * samples;
  return "RIFF" + little(36 + bytes, 4) + "WAVEfmt " + little(16, 4) + little(1, 2) + little(channels, 2) +
         little(rate, 4) + little(frame * rate, 4) + little(frame, 2) + little(16, 2) + "data" + little(bytes, 4) +
         std::string(bytes, '\x10');
}

// Reads a folder's files within limits.
class LimitedInputs : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) { WriteFile(directory_.File(name), bytes); }
  absl::Status Read(const InputLimits& limits, GenerationRequest& request) {
    InputSource source = Data();
    source.limits = limits;
    source.open = [this](const std::string& id) -> absl::StatusOr<FileDescriptor> {
      const std::string own = directory_.File(id);
      return FileDescriptor(open((access(own.c_str(), F_OK) == 0 ? own : DataPath(id)).c_str(), O_RDONLY | O_CLOEXEC));
    };
    return ReadInputs(source, request);
  }
  absl::Status Hear(const std::string& id, const InputLimits& limits) {
    GenerationRequest request{.frame_rate = 24};
    request.audio = AudioGuide{.input_id = id};
    const absl::Status status = Read(limits, request);
    if (status.ok()) heard_ = request.audio->audio;
    return status;
  }

  const TemporaryDirectory directory_;
  std::shared_ptr<const AudioClip> heard_;
};

TEST_F(LimitedInputs, ASoundThatTheModelCannotHearIsRefusedBeforeItIsDecoded) {
  constexpr int32_t kMany = 1 << 20;
  Write("six.wav", WavOf(6, 48000, kMany));
  Write("fast.wav", WavOf(2, 384000, kMany));
  Write("one.wav", WavOf(1, 48000, 480));
  const InputLimits limits{.bytes = 1 << 20, .channels = 2};  // exceeds the limit as samples
  EXPECT_THAT(Hear("six.wav", limits),
              StatusIs(StatusCode::kInvalidArgument, "input six.wav: 6 channels; this model takes 2, or one"));
  EXPECT_THAT(Hear("fast.wav", limits),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("input fast.wav: 384000 Hz; the clip's")));
  EXPECT_THAT(Hear("one.wav", limits), IsOk());
  EXPECT_EQ(heard_->samples, 480);
}

TEST_F(LimitedInputs, OfASoundOfOpenLengthNoMoreIsReadThanTheModelHasFrames) {
  Write("long.wav", WavOf(2, 1000, 10'000));
  EXPECT_THAT(Hear("long.wav", {.channels = 2, .frames = 49}), IsOk());
  EXPECT_EQ(heard_->samples, 3042);  // 49 / 24 s and one more
  EXPECT_EQ(heard_->waveform.size(), 2 * 3042);
}

TEST_F(LimitedInputs, WhatTakesMoreMemoryThanThereIsForInputsIsRefusedByItsName) {
  Write("long.wav", WavOf(2, 48000, 1 << 20));
  EXPECT_THAT(
      Hear("long.wav", {.bytes = 4 << 20}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("input long.wav: with it, the request's inputs take more "
                                                       "than 4.0 MiB of memory")));
  GenerationRequest request = Request();
  request.conditions = {Condition(ConditionInput::Media::kImage, "camera.png"),
                        Condition(ConditionInput::Media::kClip, "clip.mp4")};
  const int64_t image = 120 * 90 * 3, frame = 96 * 64 * 3;
  EXPECT_THAT(Read({.bytes = 2 * image - 1}, request), StatusIs(StatusCode::kInvalidArgument, HasSubstr("camera")))
      << "a picture that comes is there twice";
  EXPECT_THAT(Read({.bytes = image + 9 * frame - 1}, request),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("input clip.mp4: with it")));
  EXPECT_THAT(Read({.bytes = image + 9 * frame}, request), IsOk());
}

TEST(InputReader, DecodingAllInputsOfARequestHasOneTime) {
  GenerationRequest request = Request();
  for (int32_t crf = 1; crf <= 6; ++crf) {
    request.conditions.push_back(Condition(ConditionInput::Media::kImage, "camera.png"));
    request.conditions.back().crf = crf;
  }
  FakeClock clock;
  const auto go_on = [&clock] {
    clock.Advance(absl::Seconds(1));  // called at least once per image
    return absl::OkStatus();
  };
  const InputSource source{.decoder = {.binary = KINORA_DECODE_BINARY, .clock = clock, .go_on = go_on},
                           .limits = {.time = absl::Seconds(3)},
                           .open = Data().open};
  EXPECT_THAT(ReadInputs(source, request),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("input camera.png: with it, decoding the request's inputs takes more than 3s")));
}

TEST(InputReader, InputsOfAWorkerTakeAnEighthOfItsMemoryAtMost) {
  constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;
  EXPECT_EQ(InputBytes(96 * kGiB, 70 * kGiB), 4 * kGiB);
  EXPECT_EQ(InputBytes(8 * kGiB, 6 * kGiB), kGiB);
  EXPECT_EQ(InputBytes(8 * kGiB, 7800 * kMiB), 392 * kMiB);
  EXPECT_EQ(InputBytes(8 * kGiB, 9 * kGiB), 64 * kMiB);
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
              StatusIs(StatusCode::kInvalidArgument, "input clip.mp4: it is not an image"));
  EXPECT_THAT(told(condition(Media::kClip, "sound.wav")),
              StatusIs(StatusCode::kInvalidArgument, "input sound.wav: it is not a clip"));
  EXPECT_THAT(told(condition(Media::kImage, "../make_goldens.py")),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("input ../make_goldens.py: "), HasSubstr("not of a supported type"))));
  EXPECT_THAT(told(condition(Media::kImage, "nothing.png")), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(told([](GenerationRequest& request) { request.audio = AudioGuide{.input_id = "camera.png"}; }),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("input camera.png: it is an image")));
}

}  // namespace
}  // namespace kinora
