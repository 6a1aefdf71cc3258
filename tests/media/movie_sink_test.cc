#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/media/fit_sound.h"
#include "tests/media/clip_fixtures.h"
#include "tests/testing/part_files.h"

namespace kinora {
namespace {

using ::testing::HasSubstr;

constexpr ClipInfo kClip = {.width = 96,
                            .height = 64,
                            .num_frames = 17,
                            .frame_rate = 24,
                            .audio_sample_rate = 48000,
                            .audio_channels = 2,
                            .audio_samples = 33'603};  // a multiple of neither 1024 nor 960

std::string Write(TestClip& clip, const std::string& name, const FileSinkOptions& options) {
  std::string path = TempPath(name);
  const absl::Status status = WriteClip(clip, path, options);
  EXPECT_TRUE(status.ok()) << status;
  return path;
}

// Correlation of the first channel with the written one, at the best lag within `slack` samples.
double BestCorrelation(const std::vector<float>& heard, const float* written, int64_t samples, int slack) {
  double best = -1;
  for (int lag = -slack; lag <= slack; ++lag) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 2000; i < std::min<int64_t>(samples, static_cast<int64_t>(heard.size())) - 2000; ++i) {
      ab += static_cast<double>(heard[i + lag]) * written[i];
      aa += static_cast<double>(heard[i + lag]) * heard[i + lag];
      bb += static_cast<double>(written[i]) * written[i];
    }
    best = std::max(best, ab / std::sqrt(aa * bb + 1e-30));
  }
  return best;
}

struct Case {
  Container container;
  const char *name, *video, *audio;
};
class MovieSinkTest : public testing::TestWithParam<Case> {};

TEST_P(MovieSinkTest, DecodesToTheSameFramesAndSamples) {
  TestClip clip = MakeTestClip(kClip);
  const DecodedMovie movie = DecodeMovie(Write(clip, GetParam().name, {.container = GetParam().container}));
  EXPECT_EQ(movie.video_codec, GetParam().video);
  EXPECT_EQ(movie.audio_codec, GetParam().audio);
  ASSERT_EQ(movie.rgb.size(), 17u);
  for (int f = 0; f < 17; ++f) {
    EXPECT_GT(Psnr(movie.rgb[f], clip.FrameTensor(f, f + 1).data<uint8_t>()), 36) << f;
    EXPECT_NEAR(movie.frame_seconds[f], f / 24.0, 6e-4) << f;  // WEBM timestamps are in milliseconds
  }
  EXPECT_EQ(movie.sample_rate, 48000);
  EXPECT_GT(BestCorrelation(movie.sound, clip.waveform.data(), kClip.audio_samples, 0), 0.999);
}

TEST_P(MovieSinkTest, TagsThePictureAsLimitedRangeBt709) {
  TestClip clip = MakeTestClip(kClip);
  const DecodedMovie movie = DecodeMovie(Write(clip, GetParam().name, {.container = GetParam().container}));
  EXPECT_EQ(movie.pixel_format, "yuv420p");
  EXPECT_EQ(movie.range, "tv");
  EXPECT_EQ(movie.space, "bt709");
  EXPECT_EQ(movie.primaries, "bt709");
  EXPECT_EQ(movie.transfer, "bt709");
  EXPECT_NEAR(movie.frame_rate, 24, 1e-3);
}

// The matrix of ITU-R BT.709 §3, quantised to limited range, written out to be independent of libswscale.
TEST_P(MovieSinkTest, ConvertsColoursByTheBt709Matrix) {
  for (const auto& [r, g, b] :
       {std::array{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}, {0, 0, 0}, {200, 100, 50}}) {
    TestClip clip = MakeFlatClip(kClip, static_cast<uint8_t>(r), static_cast<uint8_t>(g), static_cast<uint8_t>(b));
    const DecodedMovie movie =
        DecodeMovie(Write(clip, GetParam().name, {.container = GetParam().container, .without_audio = true, .crf = 4}));
    const double luma = (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
    const double cb = (b / 255.0 - luma) / 1.8556, cr = (r / 255.0 - luma) / 1.5748;
    const size_t middle = 32 * 96 + 48, chroma_middle = 16 * 48 + 24;
    EXPECT_NEAR(movie.luma[8][middle], 16 + 219 * luma, 1.01) << r << " " << g << " " << b;
    EXPECT_NEAR(movie.cb[8][chroma_middle], 128 + 224 * cb, 1.51) << r << " " << g << " " << b;
    EXPECT_NEAR(movie.cr[8][chroma_middle], 128 + 224 * cr, 1.51) << r << " " << g << " " << b;
  }
}

TEST_P(MovieSinkTest, WritesTheSameBytesForTheSameClip) {
  TestClip clip = MakeTestClip(kClip);
  const FileSinkOptions options{.container = GetParam().container, .parameters = "{\"seed\": \"7\"}"};
  const std::string first = ReadFile(Write(clip, std::string("a_") + GetParam().name, options));
  EXPECT_EQ(first, ReadFile(Write(clip, std::string("b_") + GetParam().name, options)));
  EXPECT_THAT(first, testing::Not(HasSubstr(TempPath(""))));  // no path
  EXPECT_THAT(first, testing::Not(HasSubstr("Lavf5")));       // no library version
}

// A small repeated tile with different noise in every frame makes the encoder try everything. Each iteration fills new
// and freed memory with a different byte.
TEST_P(MovieSinkTest, WhatLiesInFreedMemoryIsNotInTheFile) {
  constexpr int kSide = 64, kTile = 4;
  TestClip clip = MakeFlatClip({.width = kSide, .height = kSide, .num_frames = 9, .frame_rate = 24}, 0, 0, 0);
  std::minstd_rand random(1);
  uint8_t tile[kTile][kTile][3];
  for (uint8_t& value : absl::MakeSpan(&tile[0][0][0], sizeof tile)) value = random() % 200;
  for (size_t i = 0; i < clip.rgb.size(); ++i) {
    const size_t x = i / 3 % kSide, y = i / 3 / kSide % kSide;
    clip.rgb[i] = tile[y % kTile][x % kTile][i % 3] + random() % 56;
  }
  std::set<std::string> files;
  for (const int byte : {0, 1, 129, 165, 254}) {
    mallopt(M_PERTURB, byte);
    files.insert(ReadFile(Write(clip, absl::StrCat(byte, GetParam().name), {.container = GetParam().container})));
  }
  mallopt(M_PERTURB, 0);
  EXPECT_EQ(files.size(), 1);
}

TEST_P(MovieSinkTest, CarriesMetadataOnlyWhenAsked) {
  TestClip clip = MakeTestClip(kClip);
  const FileSinkOptions options{
      .container = GetParam().container, .parameters = "{\"seed\": \"7\"}", .prompt = "a lighthouse é"};
  auto lower = [](const std::map<std::string, std::string>& in) {
    std::map<std::string, std::string> out;
    for (auto& [key, value] : in) {
      std::string k = key;
      for (char& c : k) c = static_cast<char>(std::tolower(c));
      out[k] = value;
    }
    return out;
  };
  auto metadata = lower(DecodeMovie(Write(clip, GetParam().name, options)).metadata);
  EXPECT_EQ(metadata["comment"], "{\"seed\": \"7\"}");
  EXPECT_EQ(metadata["description"], "a lighthouse é");
  metadata = lower(DecodeMovie(Write(clip, GetParam().name, {.container = GetParam().container})).metadata);
  EXPECT_EQ(metadata.count("comment") + metadata.count("description"), 0u);
}

TEST_P(MovieSinkTest, LeavesTheSoundOutWhenAsked) {
  TestClip clip = MakeTestClip(kClip);
  const DecodedMovie movie =
      DecodeMovie(Write(clip, GetParam().name, {.container = GetParam().container, .without_audio = true}));
  EXPECT_EQ(movie.rgb.size(), 17u);
  EXPECT_EQ(movie.audio_codec, "");
}

TEST_P(MovieSinkTest, ResamplesRatesTheCodecDoesNotTake) {
  ClipInfo info = kClip;
  info.audio_sample_rate = 11000;
  info.audio_samples = 7703;
  TestClip clip = MakeTestClip(info);
  const DecodedMovie movie = DecodeMovie(Write(clip, GetParam().name, {.container = GetParam().container}));
  EXPECT_GE(movie.sample_rate, 11025);
  const double seconds = static_cast<double>(movie.sound.size()) / movie.sample_rate;
  EXPECT_GE(seconds, 7703.0 / 11000 - 1e-4);
  EXPECT_LE(seconds, 7703.0 / 11000 + 1024.0 / 11025);  // this libavformat trims only whole AAC frames
}

TEST_P(MovieSinkTest, ALowerCrfIsCloserToTheInput) {
  TestClip clip = MakeTestClip(kClip);
  double psnr[2];
  for (int i = 0; i < 2; ++i) {
    const DecodedMovie movie =
        DecodeMovie(Write(clip, GetParam().name, {.container = GetParam().container, .crf = i ? 45 : 10}));
    psnr[i] = Psnr(movie.rgb[5], clip.FrameTensor(5, 6).data<uint8_t>());
  }
  EXPECT_GT(psnr[0], psnr[1] + 3);
}

TEST_P(MovieSinkTest, AFailedClipLeavesNoFile) {
  TestClip clip = MakeTestClip(kClip);
  const std::string path = TempPath(std::string("unfinished_") + GetParam().name);
  {
    auto sink = MakeFileSink(path, {.container = GetParam().container});
    ASSERT_TRUE(sink->Begin(clip.info).ok());
    ASSERT_TRUE(sink->Frames(0, clip.FrameTensor(0, 9)).ok());
    EXPECT_THAT(PartFiles(path), testing::SizeIs(1));
    EXPECT_THAT(std::string(sink->End().message()), HasSubstr("9 of 17 frames"));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_THAT(PartFiles(path), testing::IsEmpty());
}

TEST_P(MovieSinkTest, TwoWritersOfOnePathDoNotMeet) {
  TestClip clips[] = {MakeTestClip(kClip), MakeTestClip(kClip)};
  const std::string path = TempPath(std::string("shared_") + GetParam().name);
  const std::string alone = TempPath(std::string("alone_") + GetParam().name);
  ASSERT_TRUE(WriteClip(clips[0], alone, {.container = GetParam().container}).ok());
  auto first = MakeFileSink(path, {.container = GetParam().container});
  ASSERT_TRUE(first->Begin(clips[0].info).ok());
  ASSERT_TRUE(WriteClip(clips[1], path, {.container = GetParam().container}).ok());
  EXPECT_EQ(ReadFile(path), ReadFile(alone));
  first.reset();  // a run that ends early does not delete the other's file
  EXPECT_EQ(ReadFile(path), ReadFile(alone));
  EXPECT_THAT(PartFiles(path), testing::IsEmpty());
}

TEST_P(MovieSinkTest, AnUnwritablePathIsNamed) {
  TestClip clip = MakeTestClip(kClip);
  const absl::Status status = WriteClip(clip, "/nonexistent/clip", {.container = GetParam().container});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/clip"));
}

// A process's file size limit simulates a full disk: the same error path, without a mount.
TEST_P(MovieSinkTest, AFileThatCannotGrowIsAnError) {
  TestClip clip = MakeTestClip(kClip);
  const std::string path = TempPath(std::string("limited_") + GetParam().name);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{.rlim_cur = 2000, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = WriteClip(clip, path, {.container = GetParam().container});
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(status, absl::ErrnoToStatus(EFBIG, "writing " + path));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_THAT(PartFiles(path), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, MovieSinkTest,
                         testing::Values(Case{Container::kMp4, "clip.mp4", "h264", "aac"},
                                         Case{Container::kWebm, "clip.webm", "vp9", "opus"}),
                         [](const auto& info) { return info.param.container == Container::kMp4 ? "Mp4" : "Webm"; });

TEST(Mp4SinkTest, SoundIsAsLongAsThePicture) {
  for (const int64_t samples : {33'603, 34'000, 35'111}) {
    ClipInfo info = kClip;
    info.audio_samples = samples;
    TestClip clip = MakeTestClip(info);
    const DecodedMovie movie = DecodeMovie(Write(clip, "exact.mp4", {}));
    EXPECT_NEAR(movie.audio_seconds * 48000, 34'000, 0.01) << samples;  // from the container
    EXPECT_EQ(movie.audio_start, 0);
    EXPECT_NEAR(movie.video_seconds, 17 / 24.0, 1e-6);
  }
}

TEST(Mp4SinkTest, SoundAloneIsNotPaddedBeyondItsSamples) {
  ClipInfo info = kClip;
  info.width = info.height = info.num_frames = 0;
  TestClip clip = MakeTestClip(info);
  EXPECT_NEAR(DecodeMovie(Write(clip, "alone.mp4", {})).audio_seconds * 48000, 33'603, 0.01);
}

TEST(FitSoundTest, WhatDoesNotFitFadesOutAndIsCutOrFollowedBySilence) {
  const std::vector<float> ones(2 * 2000, 1.0f);
  EXPECT_EQ(FitSound(ones.data(), 2, 2000, 2000, 48000), ones);
  for (const int64_t wanted : {1500, 3000}) {
    const int64_t kept = std::min<int64_t>(wanted, 2000);
    const std::vector<float> fitted = FitSound(ones.data(), 2, 2000, wanted, 48000);
    ASSERT_EQ(fitted.size(), 2 * wanted);
    for (int64_t i = 0; i < 2 * wanted; ++i) {
      const int64_t left = kept - 1 - i % wanted;  // number of samples after it
      const double expected = left < 0 ? 0 : left >= 480 ? 1 : 0.5 - 0.5 * std::cos(M_PI * left / 480);
      ASSERT_NEAR(fitted[i], expected, 1e-6) << i;
    }
  }
  EXPECT_EQ(FitSound(ones.data(), 1, 3, 5, 48000)[0], 0.75f);  // for a sound shorter than its fade
}

TEST(Mp4SinkTest, PutsTheIndexBeforeTheData) {
  TestClip clip = MakeTestClip(kClip);
  const std::string bytes = ReadFile(Write(clip, "faststart.mp4", {}));
  EXPECT_LT(bytes.find("moov"), bytes.find("mdat"));
}

TEST(Mp4SinkTest, KeepsFractionalFrameRates) {
  ClipInfo info = kClip;
  info.frame_rate = 30000 / 1001.0;
  TestClip clip = MakeTestClip(info);
  EXPECT_NEAR(DecodeMovie(Write(clip, "ntsc.mp4", {})).frame_rate, 30000 / 1001.0, 1e-9);
}

TEST(Mp4SinkTest, RefusesOddSizesAndImpossibleRates) {
  for (auto [width, rate] : {std::pair{95, 24.0}, {96, 0.0}, {96, std::nan("")}}) {
    ClipInfo info = kClip;
    info.width = width;
    info.frame_rate = rate;
    EXPECT_EQ(MakeFileSink(TempPath("refused.mp4"), {})->Begin(info).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Mp4SinkTest, RefusesSoundThatIsNotFinite) {
  TestClip clip = MakeTestClip(kClip);
  clip.waveform[1000] = std::nanf("");
  EXPECT_EQ(WriteClip(clip, TempPath("nan.mp4"), {}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kinora
