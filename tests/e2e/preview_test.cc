// Previews of a clip in progress, from the demo model to a client's file and a watcher's events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/media/jpeg.h"
#include "tests/e2e/server.h"
#include "tests/media/clip_fixtures.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr char kFolder[] = KINORA_SOURCE_DIR "/models/demo/";
constexpr char kPrompt[] = "a yellow triangle moves up on a blue background";

struct Shown {
  std::string stage;
  int step;
  std::string image;
};

// Returns the PSNR in dB between a preview and a frame, both averaged over `cells` × `cells` cells.
double DecibelsByCells(const RgbPicture& preview, const std::vector<uint8_t>& frame, int64_t side, int64_t cells) {
  const auto mean = [&](const uint8_t* rgb, int64_t width, int64_t cell, int c) {
    const int64_t length = width / cells, top = cell / cells * length, left = cell % cells * length;
    double sum = 0;
    for (int64_t i = 0; i < length * length; ++i) sum += rgb[3 * ((top + i / length) * width + left + i % length) + c];
    return sum / static_cast<double>(length * length);
  };
  double squares = 0;
  for (int64_t cell = 0; cell < cells * cells; ++cell) {
    for (int c = 0; c < 3; ++c) {
      squares += std::pow(mean(preview.rgb.data(), preview.width, cell, c) - mean(frame.data(), side, cell, c), 2);
    }
  }
  return 10 * std::log10(255.0 * 255.0 * 3 * static_cast<double>(cells * cells) / squares);
}

class Previews : public testing::Test {
 protected:
  Previews() {
    // Inherited by the worker, so that each test computes its own preview fit.
    setenv("XDG_CACHE_HOME", directory_.File("cache").c_str(), 1);
  }
  // Returns the job's previews in the order received, and downloads the clip to `path`.
  std::vector<Shown> Watch(const std::vector<std::string>& flags, const std::string& path) {
    std::vector<std::string> more = {"--width=128", "--height=128", "--frames=25", "--seed=5"};
    more.insert(more.end(), flags.begin(), flags.end());
    const std::string id = server_.Create(kPrompt, more);
    const Result watch = server_.Run({"watch", id, "--json"});
    EXPECT_EQ(watch.status, 0) << watch.err;
    std::vector<Shown> shown;
    for (const absl::string_view line : absl::StrSplit(watch.out, '\n', absl::SkipEmpty())) {
      const auto event = nlohmann::json::parse(line);
      if (!event.contains("preview")) continue;
      const auto& preview = event["preview"];
      EXPECT_EQ(preview["media_type"], "image/jpeg");
      Shown one{.stage = preview["stage"], .step = preview["step"], .image = ""};
      EXPECT_TRUE(absl::Base64Unescape(std::string(preview["image"]), &one.image));
      shown.push_back(std::move(one));
    }
    EXPECT_EQ(server_.Run({"download", id, "-o", path}).status, 0);
    EXPECT_EQ(server_.Json({"get", id}).dump().find("media_type\":\"image"), std::string::npos);
    return shown;
  }

  // A slow reader receives only the latest preview, so the number of previews depends on the machine. Repeats the job
  // until its previews are `enough`.
  std::vector<Shown> WatchUntil(const std::vector<std::string>& flags, const std::string& path,
                                const std::function<bool(const std::vector<Shown>&)>& enough) {
    std::vector<Shown> shown;
    do shown = Watch(flags, path);
    while (!enough(shown) && !HasFailure());
    return shown;
  }

  TemporaryDirectory directory_;
  Server server_{
      directory_,
      {.binary = KINORA_WORKER_BINARY,
       .flags = {
           absl::StrCat("--worker-model=", kFolder, "ltx-2.3-demo-dev.safetensors"),
           absl::StrCat("--worker-model=text_encoder=", kFolder, "gemma"),
           absl::StrCat("--worker-model=distilled_lora=", kFolder, "ltx-2.3-demo-distilled-lora.safetensors"),
           absl::StrCat("--worker-model=spatial_upsampler=", kFolder, "ltx-2.3-demo-spatial-upscaler-x2.safetensors"),
           "--worker-device=cpu", "--worker-threads=2"}}};
};

TEST_F(Previews, LookLikeTheMiddleOfTheClipAndComeAfterEverySoManySteps) {
  server_.Start();
  const std::string path = directory_.File("clip.mp4");
  const std::vector<Shown> shown =
      WatchUntil({"--recipe=distilled", "--preview-every=2"}, path,
                 [](const std::vector<Shown>& some) { return !some.empty() && some.back().step >= 6; });  // of 8
  ASSERT_FALSE(shown.empty());
  int last = 0;
  for (const Shown& one : shown) {
    EXPECT_EQ(one.stage, "denoise");
    EXPECT_EQ(one.step % 2, 0);
    EXPECT_GT(one.step, last);
    last = one.step;
    EXPECT_LT(one.image.size(), 20'000u);
    EXPECT_THAT(DecodeJpeg(one.image, 128), testing::Truly([](const auto& picture) { return picture.ok(); }));
  }
  const auto frames = DecodeMovie(path).rgb;
  ASSERT_EQ(frames.size(), 25u);
  const double decibels = DecibelsByCells(*DecodeJpeg(shown.back().image, 128), frames[13], 128, 4);
  RecordProperty("decibels", absl::StrCat(decibels));
  EXPECT_GT(decibels, 17);
  EXPECT_TRUE(std::filesystem::exists(directory_.File("cache/kinora/previews")));
}

TEST_F(Previews, OfBothStagesHaveTheClipsProportionsAndTheClipIsTheSame) {
  server_.Start();
  const std::string with = directory_.File("with.mp4"), without = directory_.File("without.mp4");
  const std::vector<Shown> shown =
      WatchUntil({"--recipe=distilled_two_stage", "--preview-every=1"}, with,
                 [](const std::vector<Shown>& some) { return !some.empty() && some[0].stage != some.back().stage; });
  std::vector<std::string> stages;
  for (const Shown& one : shown) {
    if (stages.empty() || stages.back() != one.stage) stages.push_back(one.stage);
    const auto picture = DecodeJpeg(one.image, 128);
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(std::pair(picture->width, picture->height), std::pair(int64_t{128}, int64_t{128}));
  }
  EXPECT_THAT(stages, testing::ElementsAre("denoise_1", "denoise_2"));
  EXPECT_TRUE(Watch({"--recipe=distilled_two_stage"}, without).empty());
  EXPECT_EQ(ReadFile(with), ReadFile(without));
}

TEST_F(Previews, AThumbnailIsTheMiddleFrameAndIsSavedWhereAsked) {
  server_.Start();
  const std::string clip = directory_.File("clip.mp4"), beside = directory_.File("clip.thumbnail.jpg");
  const Result made = RunToEnd(server_.Generate(
      kPrompt, clip, {"--recipe=distilled", "--width=128", "--height=128", "--frames=25", "--thumbnail"}));
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr(beside));
  const auto picture = DecodeJpeg(ReadFile(beside), 128);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(std::pair(picture->width, picture->height), std::pair(int64_t{128}, int64_t{128}));
  const auto frames = DecodeMovie(clip).rgb;
  ASSERT_EQ(frames.size(), 25u);
  const double middle = DecibelsByCells(*picture, frames[12], 128, 16);
  EXPECT_GT(middle, 28);
  EXPECT_GT(middle, DecibelsByCells(*picture, frames[0], 128, 16));
  EXPECT_GT(middle, DecibelsByCells(*picture, frames[24], 128, 16));

  const std::string id = server_.Json({"list"})["id"], again = directory_.File("again.mp4");
  ASSERT_EQ(server_.Run({"download", id, "-o", again}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(directory_.File("again.thumbnail.jpg")));
  ASSERT_EQ(server_.Run({"download", id, "--artifact=thumbnail.jpg", "-o", directory_.File("t.jpg")}).status, 0);
  EXPECT_EQ(ReadFile(directory_.File("t.jpg")), ReadFile(beside));
  const Result sound = server_.Run({"create", "x", "--audio-only", "--thumbnail"});
  EXPECT_EQ(sound.status, 2);
  EXPECT_THAT(sound.err, HasSubstr("output.thumbnail is set by --thumbnail"));
}

TEST_F(Previews, GoIntoAFileOrAreRefusedBeforeTheJobIs) {
  server_.Start();
  const std::string file = directory_.File("now.jpg"), clip = directory_.File("clip.mp4");
  const auto generate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--recipe=distilled", "--width=128", "--height=96", "--frames=9"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunToEnd(server_.Generate(kPrompt, clip, flags));
  };
  while (!std::filesystem::exists(file)) {  // as in WatchUntil
    const Result made = generate({"--preview=" + file});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  const auto picture = DecodeJpeg(ReadFile(file), 128);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(std::pair(picture->width, picture->height), std::pair(int64_t{128}, int64_t{96}));
  for (const auto& entry : std::filesystem::directory_iterator(directory_.File("."))) {
    EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
  }
  const Result nowhere = generate({"--preview=" + directory_.File("no-folder/now.jpg")});
  EXPECT_EQ(nowhere.status, 0);  // the clip succeeds
  EXPECT_THAT(nowhere.err, HasSubstr("no preview: creating "));
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"--preview=now.png"}, "--preview=now.png: must end in .jpg"},
      {{"--preview"}, "--preview: standard error is not a terminal; use --preview=FILE.jpg"},
      {{"--preview-every=-1"}, "--preview-every"}};
  for (const auto& [flags, says] : mistakes) {
    const Result refused = generate(flags);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr(says));
  }
  const Result sound =
      server_.Run({"generate", "x", "--audio-only", "--preview=" + file, "-o", directory_.File("a.wav")});
  EXPECT_EQ(sound.status, 2);
  EXPECT_THAT(sound.err, HasSubstr("output.preview_every_steps: audio_only: there is no picture"));
  EXPECT_THAT(sound.err, HasSubstr("output.preview_every_steps is set by --preview-every"));
}

}  // namespace
}  // namespace kinora
