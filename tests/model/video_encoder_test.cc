#include "engine/model/video_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/video_decoder.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_run.h"
#include "tests/config/config_files.h"
#include "tests/model/moving_disc.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

VideoEncoderConfig EncoderOf(const Golden& golden) {
  return ParseLightricksConfig(golden.metadata("config"), golden.metadata("model_version")).value().video_encoder;
}

class VideoEncoderGolden : public testing::TestWithParam<std::tuple<const char*, DType, TestedBackend>> {};

TEST_P(VideoEncoderGolden, TheLatentAndEveryStageEqualTheReference) {
  const auto& [generation, dtype, on] = GetParam();
  Golden golden(std::string("video_encoder_") + generation);
  TapCheck taps(golden, Tolerance(on, dtype), GoldenLayout::kChannelsFirst);
  ModelRig rig(on, dtype, &taps.taps());
  WeightLoader weights = rig.Open({.paths = {golden.WriteCheckpoint()}});
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoEncoder encoder, VideoEncoder::Load(weights.Under("vae"), EncoderOf(golden)));
  ASSERT_THAT(weights.Finish(), IsOk());
  const HostTensor pixels = ToChannelsLast(golden.Get("in.pixels"));
  const HostTensor expected = ToChannelsLast(golden.Get("out.latent"));
  const Shape shape = pixels.tensor().shape();
  EXPECT_THAT(encoder.CheckPixels(shape), IsOk());
  ASSERT_EQ(encoder.OutputShape(shape), expected.tensor().shape());
  const Tensor latent = rig.Output(DType::kF32, expected.tensor().shape());
  encoder.Forward(rig.exec, rig.Upload(pixels.tensor()), latent);
  EXPECT_TRUE(Near(rig.Floats(latent), expected.tensor(), rig.tolerance));
  EXPECT_TRUE(taps.Result());
  EXPECT_EQ(taps.compared(), static_cast<int>(golden.Names("tap.").size()));
  const int64_t dry = DryRunArenaBytes(dtype, [&](Exec& exec) {
    encoder.Forward(exec, Tensor(DType::kF32, shape, nullptr),
                    Tensor(DType::kF32, encoder.OutputShape(shape), nullptr));
  });
  EXPECT_EQ(rig.arena.peak(), dry);  // the dry run reported exactly the memory needed
}

INSTANTIATE_TEST_SUITE_P(All, VideoEncoderGolden,
                         testing::Combine(testing::Values("2_0", "2_3", "narrow"),
                                          testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(DTypeName(std::get<1>(info.param))) + "_" + std::get<2>(info.param).name;
                         });

TEST(VideoEncoder, WhatTheDemoModelEncodesItDecodesAgain) {
  const ModelFiles files{.paths = {KINORA_SOURCE_DIR "/models/demo/ltx-2.3-demo-dev.safetensors"}};
  const ModelConfig config = ReadModelConfig(*Checkpoint::Open(files).value()).value();
  ModelRig rig(Cpu(), DType::kF32);
  const WeightLoader weights = rig.Open(files);
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoEncoder encoder,
                              VideoEncoder::Load(weights.Under("vae"), config.video_encoder));
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoDecoder decoder,
                              VideoDecoder::Load(weights.Under("vae"), config.video_decoder));
  ASSERT_THAT(weights.Finish(), IsOk());
  const HostTensor pixels = MovingDisc(25, 128);
  const Shape shape = pixels.tensor().shape();
  const Tensor latent = rig.Output(DType::kF32, encoder.OutputShape(shape)), again = rig.Output(DType::kF32, shape);
  encoder.Forward(rig.exec, rig.Upload(pixels.tensor()), latent);
  ASSERT_EQ(decoder.OutputShape(latent.shape()), shape);
  decoder.Forward(rig.exec, latent, again);
  const double psnr = Psnr(rig.Floats(again), pixels.tensor());
  RecordProperty("psnr_db", std::to_string(psnr));
  EXPECT_GT(psnr, 25);
}

VideoEncoderConfig Released(const std::string& version) {
  return ParseConfig(ReadConfigFile("lightricks_" + version)).value().video_encoder;
}

// An encoder without weights in memory.
struct DryEncoder {
  explicit DryEncoder(const VideoEncoderConfig& config)
      : loader(WeightLoader::Dry(*mesh, backend, DType::kBF16)),
        encoder(VideoEncoder::Load(loader.Under("vae"), config).value()) {}
  std::unique_ptr<Mesh> mesh = Mesh::Single();
  DryBackend backend;
  WeightLoader loader;
  VideoEncoder encoder;
};

TEST(VideoEncoder, TheReleasedModelsAskForTheKeysOfTheSingleFile) {
  for (const auto& [version, resnets] : {std::pair("2.0", 4 + 6 + 6 + 2 + 2), {"2.3", 4 + 6 + 4 + 2 + 2}}) {
    const DryEncoder dry(Released(version));
    std::vector<std::string> names;
    for (const RecordedTensor& tensor : dry.loader.recorded()) names.push_back(tensor.name);
    EXPECT_THAT(names,
                testing::IsSupersetOf({"vae.per_channel_statistics.std-of-means", "vae.encoder.conv_in.conv.weight",
                                       "vae.encoder.conv_out.conv.bias", "vae.encoder.down_blocks.3.conv.conv.weight",
                                       "vae.encoder.down_blocks.8.res_blocks.1.conv2.conv.bias"}));
    EXPECT_EQ(names.size(), 2u + 2 * (2 + 4 + 2 * resnets)) << version;
  }
}

TEST(VideoEncoder, OnlyTheMeansOfTheLastConvolutionAreHeld) {
  const VideoEncoderConfig config = Released("2.3");
  DryEncoder dry(config);
  const int64_t row = 27 * config.last_width() + 1;  // one row of conv_out: its weights and its bias
  const int64_t statistics = 2 * config.latent_channels;
  EXPECT_EQ(dry.loader.recorded_elements() - statistics - dry.backend.ops().parameters(), row);
}

TEST(VideoEncoder, ClipsThatDoNotFitItsGridAreRefusedByTheField) {
  const DryEncoder v20(Released("2.0"));
  const auto refused = [](const char* text) { return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)); };
  EXPECT_THAT(v20.encoder.CheckPixels({8, 64, 64, 3}), refused("num_frames: 8 is not a multiple of 8, plus 1"));
  EXPECT_THAT(v20.encoder.CheckPixels({9, 60, 64, 3}), refused("height: 60 is not a multiple of 32"));
  EXPECT_THAT(v20.encoder.CheckPixels({9, 64, 0, 3}), refused("width: 0"));
  EXPECT_THAT(v20.encoder.CheckPixels({1, 32, 32, 3}), IsOk());  // zero padding, in both generations
}

TEST(VideoEncoder, AModelWithoutOneStillReadsAndSaysWhatIsMissing) {
  nlohmann::json file = ReadConfigFile("lightricks_2.3");
  const auto status = [&] {
    const absl::StatusOr<ModelConfig> config = ParseConfig(file);
    if (!config.ok()) return config.status();
    DryBackend backend;
    const auto mesh = Mesh::Single();
    return VideoEncoder::Load(WeightLoader::Dry(*mesh, backend, DType::kF32).Under("vae"), config->video_encoder)
        .status();
  };
  nlohmann::json& vae = file["config"]["vae"];
  const nlohmann::json blocks = vae["encoder_blocks"];
  EXPECT_THAT(status(), IsOk());
  vae["encoder_blocks"][1][0] = "compress_space";
  EXPECT_THAT(status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("compress_space is not supported")));
  vae["encoder_blocks"] = blocks;
  vae["encoder_blocks"][1][1] = {{"multiplier", 3}};
  vae["encoder_blocks"][3][1] = {{"multiplier", 5}};
  EXPECT_THAT(status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("do not become")));
  vae["encoder_blocks"] = blocks;
  vae["latent_log_var"] = "diagonal";
  EXPECT_THAT(status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("latent_log_var")));
  vae.erase("encoder_blocks");
  EXPECT_THAT(status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("encoder_blocks: missing")));
}

}  // namespace
}  // namespace kinora
