// kinora-render with files that its clip shows: pictures through kinora-decode and the engine against the reference's
// whole renders, and what is said of files that cannot be shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const std::string path = folder.File(name);
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

// The golden's request as JSON, with its pictures as PNG files beside it.
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
  EXPECT_THAT(told({"--image", folder.File("torn.png@17")}), HasSubstr("conditions[0].frame: 17 is not within 0..16"));
}

}  // namespace
}  // namespace kinora
