// kinora-render with input files: pictures through kinora-decode and the engine against the reference's whole renders,
// and error messages for unusable files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/media/png_sink.h"
#include "tests/testing/golden.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

const std::string kSource = KINORA_SOURCE_DIR;

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Arguments TinyModel() {
  return {KINORA_RENDER, "--quiet",
          "--model",     kSource + "/models/tiny/ltx-2.3-tiny-dev.safetensors",
          "--model",     "text_encoder=" + kSource + "/models/tiny/gemma"};
}

const Arguments kSmall = {"--prompt", "a boat", "--width",      "64", "--height", "64", "--frames", "17",
                          "--steps",  "2",      "--frame-rate", "24", "--seed",   "7",  "--recipe", "one_stage"};

std::string WritePng(const TemporaryDirectory& folder, const std::string& name, const Tensor& rgb) {
  std::string path = folder.File(name);
  const auto encoder = *PngEncoder::Create(rgb.dim(1), rgb.dim(0));
  std::ofstream(path, std::ios::binary) << *encoder->Encode(rgb.data<uint8_t>(), "", "");
  return path;
}

HostTensor Dumped(const std::string& path, const std::string& name) {
  const auto file = *SafetensorsFile::Open(path);
  const TensorInfo* info = file->Find(name);
  KINORA_CHECK(info != nullptr) << name;
  HostTensor tensor(info->dtype, info->shape);
  KINORA_CHECK(file->Read(*info, 0, info->bytes, tensor.tensor().raw()).ok());
  return tensor;
}

// Writes the golden's request as JSON, and its pictures as PNG files.
std::string WriteRequest(const TemporaryDirectory& folder, Golden& golden, int crf) {
  Json request = Json::parse(golden.metadata("parameters"))["request"];
  for (Json& shown : request["conditions"]) {
    const std::string name = shown["picture"];
    const Tensor& clip = golden.Get("in." + name);
    const Tensor picture = clip.Reshape({clip.dim(1), clip.dim(2), clip.dim(3)});
    shown["image"] = {{"input_id", WritePng(folder, name + ".png", picture)}};
    shown["crf"] = crf;
    shown.erase("picture");
  }
  std::ofstream(folder.File("request.json")) << request.dump();
  return folder.File("request.json");
}

TEST(RenderInputs, PicturesOfFilesAreThoseOfTheReference) {
  Golden golden("pipeline_image");
  const TemporaryDirectory folder;
  const std::string dump = folder.File("dump.safetensors");
  const Arguments command = TinyModel() + Arguments{"--dump", dump, "--precision", "f32", "--request"};
  const ProcessResult result = RunProcess(command + Arguments{WriteRequest(folder, golden, /*crf=*/0)});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  for (const char* name : {"video_latent", "audio_latent"}) {
    EXPECT_TRUE(Near(Dumped(dump, name).tensor(), golden.Get(std::string("out.") + name), 2e-5)) << name;
  }
  ASSERT_EQ(RunProcess(command + Arguments{WriteRequest(folder, golden, /*crf=*/33)}).exit_status, 0);
  EXPECT_FALSE(Near(Dumped(dump, "video_latent").tensor(), golden.Get("out.video_latent"), 2e-3));
}

TEST(RenderInputs, AFlagIsAConditionOfTheRequest) {
  Golden golden("pipeline_image");
  const TemporaryDirectory folder;
  const Tensor& wide = golden.Get("in.wide");
  const std::string picture = WritePng(folder, "wide.png", wide.Reshape({wide.dim(1), wide.dim(2), 3}));
  const std::string dumps[] = {folder.File("flag"), folder.File("json"), folder.File("ranks")};
  Json request;
  request["conditions"] = {{{"image", {{"input_id", picture}}}, {"frame", 9}, {"strength", 0.5}, {"crf", 33}}};
  std::ofstream(folder.File("request.json")) << request.dump();
  const Arguments flags[] = {{"--image", picture + "@9:0.5", "--json"},
                             {"--request", folder.File("request.json")},
                             {"--image", picture + "@9:0.5", "--ranks", "tokens=2", "--processes"}};
  for (int i = 0; i < 3; ++i) {
    const ProcessResult result = RunProcess(TinyModel() + kSmall + flags[i] + Arguments{"--dump", dumps[i]});
    ASSERT_EQ(result.exit_status, 0) << result.err;
    if (i == 0) {
      EXPECT_THAT(result.out, HasSubstr("encode_inputs"));
    }
    const HostTensor first = Dumped(dumps[0], "video_latent"), other = Dumped(dumps[i], "video_latent");
    EXPECT_EQ(RelativeError(first.tensor(), other.tensor()), 0) << flags[i][0];
  }
}

// Writes a WAV file with 16 bits and two channels.
std::string WriteWav(const TemporaryDirectory& folder, int32_t rate, const std::vector<int16_t>& samples) {
  const auto bytes = [](auto value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto size = static_cast<uint32_t>(2 * samples.size());
  std::ofstream(folder.File("sound.wav"), std::ios::binary)
      << "RIFF" << bytes(size + 36) << "WAVEfmt " << bytes(uint32_t{16}) << bytes(uint16_t{1}) << bytes(uint16_t{2})
      << bytes(rate) << bytes(4 * rate) << bytes(uint16_t{4}) << bytes(uint16_t{16}) << "data" << bytes(size)
      << std::string(reinterpret_cast<const char*>(samples.data()), size);
  return folder.File("sound.wav");
}

TEST(RenderInputs, ASoundOfAFileIsHeardFromItsStartOnAndDecidesHowLongTheClipIs) {
  const TemporaryDirectory folder;
  constexpr int kRate = 22050;
  std::vector<int16_t> samples;
  for (int i = 0; i < kRate; ++i) {
    samples.push_back(static_cast<int16_t>(9000 * std::sin(0.06 * i)));
    samples.push_back(static_cast<int16_t>(i % 701 - 350));
  }
  const std::string sound = WriteWav(folder, kRate, samples), dump = folder.File("dump");
  const Arguments command =
      TinyModel() + Arguments{"--prompt", "a bell",       "--width", "64",     "--height", "64",       "--steps",
                              "1",        "--frame-rate", "24",      "--seed", "7",        "--recipe", "one_stage"};
  const ProcessResult result = RunProcess(
      command + Arguments{"--audio", sound + "@0.2", "--dump", dump, "--output", folder.File("clip.mp4"), "--json"});
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("encode_audio"));
  const HostTensor heard = Dumped(dump, "waveform");
  constexpr int64_t kBegin = 4410, kHeard = 15619;  // 17 of 24 frames in 0.8 s
  ASSERT_EQ(heard.tensor().shape(), Shape({2, kHeard}));
  for (int64_t i = 0; i < kHeard; ++i) {
    for (int64_t c = 0; c < 2; ++c) {
      ASSERT_EQ(heard.tensor().data<float>()[c * kHeard + i], static_cast<float>(samples[2 * (kBegin + i) + c]) / 32768)
          << i;
    }
  }
  const ProcessResult longer =
      RunProcess(command + Arguments{"--audio", sound, "--frames", "33", "--dump", folder.File("longer")});
  EXPECT_EQ(longer.exit_status, 2);
  EXPECT_THAT(longer.err, HasSubstr("num_frames: 33 frames last longer than the given sound: 1 s"));
  EXPECT_THAT(longer.err, HasSubstr("nearest: 17"));
}

TEST(RenderInputs, ASoundAloneIsWrittenAsSoundAndAsNoPictures) {
  const TemporaryDirectory folder;
  const Arguments command =
      TinyModel() + Arguments{"--prompt", "a bell", "--frames", "9", "--audio-only", "--steps", "1", "--output"};
  for (const char* name : {"sound.wav", "sound.mp4"}) {
    const ProcessResult result = RunProcess(command + Arguments{folder.File(name)});
    EXPECT_EQ(result.exit_status, 0) << result.err;
    EXPECT_GT(std::filesystem::file_size(folder.File(name)), 1000u);
  }
  const ProcessResult pictures = RunProcess(command + Arguments{folder.File("pictures.zip")});
  EXPECT_EQ(pictures.exit_status, 2) << pictures.err;
  EXPECT_THAT(pictures.err, HasSubstr("container: audio_only generates no picture; nearest: WAV"));
}

TEST(RenderInputs, WhatCannotBeShownIsRefusedByItsFile) {
  const TemporaryDirectory folder;
  std::ofstream(folder.File("torn.png")) << "\x89PNG\r\n\x1a\n, and no more";
  std::ofstream(folder.File("notes.txt")) << "a boat";
  const auto told = [&](const Arguments& flags) {
    const ProcessResult result = RunProcess(TinyModel() + kSmall + flags + Arguments{"--dump", folder.File("dump")});
    EXPECT_EQ(result.exit_status, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(told({"--image", folder.File("torn.png")}), HasSubstr("input " + folder.File("torn.png") + ": "));
  EXPECT_THAT(told({"--image", folder.File("notes.txt")}), HasSubstr("--image"));
  EXPECT_THAT(told({"--image", folder.File("nothing.png")}), HasSubstr("nothing.png"));
  ASSERT_EQ(mkfifo(folder.File("pipe.wav").c_str(), 0600), 0);
  WriteFile(folder.File("request.json"), R"({"audio": {"media": {"input_id": ")" + folder.File("pipe.wav") + R"("}}})");
  EXPECT_THAT(told({"--request", folder.File("request.json")}), HasSubstr("pipe.wav: is not a regular file"));
  EXPECT_THAT(told({"--image", folder.File("torn.png@17")}), HasSubstr("conditions[0].frame: 17 is not within 0..16"));
}

Arguments DemoModel() {
  const std::string demo = kSource + "/models/demo/";
  return {KINORA_RENDER, "--quiet",
          "--model",     demo + "ltx-2.3-demo-dev.safetensors",
          "--model",     "text_encoder=" + demo + "gemma",
          "--model",     "distilled_lora=" + demo + "ltx-2.3-demo-distilled-lora.safetensors",
          "--model",     "spatial_upsampler=" + demo + "ltx-2.3-demo-spatial-upscaler-x2.safetensors",
          "--prompt",    "a red circle moves right on a white background while a medium tone plays",
          "--seed",      "5"};
}

// A red disc at the left of a white square of 128 pixels.
HostTensor Disc() {
  HostTensor picture(DType::kU8, {128, 128, 3});
  auto* rgb = picture.tensor().data<uint8_t>();
  for (int64_t y = 0; y < 128; ++y) {
    for (int64_t x = 0; x < 128; ++x) {
      const bool red = (x - 40) * (x - 40) + (y - 64) * (y - 64) < 26 * 26;
      for (const int colour : {red ? 220 : 245, red ? 40 : 245, red ? 40 : 245}) *rgb++ = static_cast<uint8_t>(colour);
    }
  }
  return picture;
}

// In dB, for values from 0 to 1.
double Psnr(absl::Span<const float> a, absl::Span<const float> b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return -10 * std::log10(squares / static_cast<double>(a.size()) + 1e-12);
}

absl::Span<const float> Rows(const HostTensor& tensor, int64_t begin, int64_t end) {
  const Tensor rows = tensor.tensor().Rows(begin, end);
  return {rows.data<float>(), static_cast<size_t>(rows.elements())};
}

TEST(RenderInputs, APictureIsTheFirstFrameOfTheDemoModelsClip) {
  const TemporaryDirectory folder;
  const HostTensor disc = Disc();
  const std::string picture = WritePng(folder, "disc.png", disc.tensor()), dump = folder.File("dump");
  std::vector<float> shown;
  for (int64_t i = 0; i < disc.tensor().elements(); ++i) {
    shown.push_back(static_cast<float>(disc.tensor().data<uint8_t>()[i]) / 255);
  }
  for (const char* recipe : {"one_stage", "two_stage", "distilled"}) {
    const ProcessResult result =
        RunProcess(DemoModel() + Arguments{"--image", picture, "--recipe", recipe, "--dump", dump});
    ASSERT_EQ(result.exit_status, 0) << result.err;
    const double psnr = Psnr(Rows(Dumped(dump, "frames"), 0, 1), shown);
    std::printf("%s: %.1f dB\n", recipe, psnr);
    EXPECT_GE(psnr, 25) << recipe;
  }
}

// The window covers the last 8 of 25 frames: one of four latent frames.
TEST(RenderInputs, ARetakeOfADemoClipChangesWhatItsWindowMeets) {
  const TemporaryDirectory folder;
  const std::string clip = folder.File("clip.mp4"), kept = folder.File("kept"), anew = folder.File("anew");
  ASSERT_EQ(RunProcess(DemoModel() + Arguments{"--output", clip}).exit_status, 0);
  const Json keep = {{"retake", {{"clip", {{"input_id", clip}}}, {"end_seconds", 1}, {"keep_video", true}}}};
  std::ofstream(folder.File("keep.json")) << keep.dump();
  const Arguments runs[] = {{"--request", folder.File("keep.json"), "--dump", kept},
                            {"--retake", clip + ":0.75-1", "--seed", "6", "--dump", anew}};
  for (const Arguments& run : runs) {
    const ProcessResult result = RunProcess(DemoModel() + run);
    ASSERT_EQ(result.exit_status, 0) << result.err;
  }
  const HostTensor old_frames = Dumped(kept, "frames"), frames = Dumped(anew, "frames");
  const double far = Psnr(Rows(frames, 0, 9), Rows(old_frames, 0, 9));
  const double inside = Psnr(Rows(frames, 17, 25), Rows(old_frames, 17, 25));
  std::printf("two latent frames away %.1f dB, inside %.1f dB\n", far, inside);
  EXPECT_GE(far, 40);
  EXPECT_LT(inside, 30);
  const HostTensor old_latent = Dumped(kept, "video_latent"), latent = Dumped(anew, "video_latent");
  const int64_t channels = latent.tensor().dim(1), cells = latent.tensor().dim(3) * latent.tensor().dim(4);
  const float *was = old_latent.tensor().data<float>(), *is = latent.tensor().data<float>();
  for (int64_t c = 0; c < channels; ++c) {
    EXPECT_TRUE(std::equal(is + c * 4 * cells, is + (c * 4 + 3) * cells, was + c * 4 * cells)) << c;
  }
}

}  // namespace
}  // namespace kinora
