#include "engine/model/audio_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/config/config_reader.h"
#include "engine/model/audio_decoder.h"
#include "engine/model/mel_front_end.h"
#include "engine/model/resampler.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_run.h"
#include "tests/config/config_files.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

AudioEncoderConfig EncoderOf(const Golden& golden) {
  return ParseLightricksConfig(golden.metadata("config"), golden.metadata("model_version")).value().audio_encoder;
}

class AudioEncoderGolden : public testing::TestWithParam<std::tuple<DType, TestedBackend>> {};
INSTANTIATE_TEST_SUITE_P(All, AudioEncoderGolden,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16), testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return absl::StrCat(std::string(DTypeName(std::get<0>(info.param))), "_",
                                               std::get<1>(info.param).name);
                         });

TEST_P(AudioEncoderGolden, TheLatentAndEveryLevelEqualTheReference) {
  const auto& [dtype, on] = GetParam();
  Golden golden("audio_encoder");
  TapCheck taps(golden, Tolerance(on, dtype), GoldenLayout::kChannelsFirst);
  ModelRig rig(on, dtype, &taps.taps());
  WeightLoader weights = rig.Open({.paths = {golden.WriteCheckpoint()}});
  KINORA_ASSERT_OK_AND_ASSIGN(const AudioEncoder encoder,
                              AudioEncoder::Load(weights.Under("audio_vae"), EncoderOf(golden)));
  ASSERT_THAT(weights.Finish(), IsOk());
  const Tensor& mel = golden.Get("in.mel");  // [1, 2, 18, 64]
  const Tensor& expected = golden.Get("out.latent");
  ASSERT_EQ(encoder.LatentRows(mel.dim(2)), expected.dim(1));
  const Tensor latent = rig.Output(DType::kF32, {expected.dim(1), expected.dim(2)});
  encoder.Forward(rig.exec, rig.Upload(mel.Reshape({mel.dim(1), mel.dim(2), mel.dim(3)})), latent);
  EXPECT_TRUE(Near(rig.Floats(latent), expected, rig.tolerance));
  EXPECT_TRUE(taps.Result());
  EXPECT_EQ(taps.compared(), static_cast<int>(golden.Names("tap.").size()));
  const int64_t dry = DryRunArenaBytes(dtype, [&](Exec& exec) {
    encoder.Forward(exec, Tensor(DType::kF32, Shape({mel.dim(1), mel.dim(2), mel.dim(3)}), nullptr),
                    Tensor(DType::kF32, Shape({expected.dim(1), expected.dim(2)}), nullptr));
  });
  EXPECT_EQ(rig.arena.peak(), dry);  // the dry run reported exactly the memory needed
}

class MelFrontEndGolden : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, MelFrontEndGolden, testing::ValuesIn(Backends()), BackendName);

TEST_P(MelFrontEndGolden, RowsAreThoseOfTheReference) {
  Golden golden("mel_front_end");
  ModelRig rig(GetParam(), DType::kF32);
  const AudioEncoderConfig config;  // the released model's
  KINORA_ASSERT_OK_AND_ASSIGN(const MelFrontEnd front, MelFrontEnd::Make(rig.backend(), config));
  const Tensor& sound = golden.Get("in.sound");
  const Tensor& expected = golden.Get("out.mel");
  EXPECT_THAT(front.CheckSound(sound.width()), IsOk());
  ASSERT_EQ(front.Rows(sound.width()), expected.dim(1));
  const Tensor mel = rig.Output(DType::kF32, expected.shape());
  front.Forward(rig.exec, rig.Upload(sound), mel);
  EXPECT_TRUE(Near(rig.Floats(mel), expected, rig.tolerance));
  EXPECT_THAT(front.CheckSound(512),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("512 samples at 16000 Hz are too short")));
}

TEST(MelFrontEnd, FiltersAreSlaneys) {
  Golden golden("mel_front_end");
  EXPECT_TRUE(Near(SlaneyFilters(64, 1024, 16000), golden.Get("out.filters"), 2e-6));
}

TEST(Resampler, EveryRateGivesTheSamplesOfTheReference) {
  Golden golden("resample");
  const Tensor& sound = golden.Get("in.sound");
  for (const std::string& name : golden.Names("out.")) {
    const size_t split = name.find('_');
    const int64_t from = std::stoll(name.substr(4, split - 4)), to = std::stoll(name.substr(split + 1));
    const Tensor& expected = golden.Get(name);
    for (int64_t c = 0; c < sound.dim(0); ++c) {
      const float* channel = sound.data<float>() + c * sound.width();
      const std::vector<float> got = Resample(absl::MakeConstSpan(channel, sound.width()), from, to);
      ASSERT_EQ(static_cast<int64_t>(got.size()), ResampledLength(sound.width(), from, to));
      EXPECT_TRUE(Near(got, expected.Rows(c, c + 1), 1e-6)) << name;
    }
  }
}

TEST(Resampler, ShortSoundAndEqualRatesAreWhatTheyAre) {
  const std::vector<float> three = {1, -2, 3};
  EXPECT_EQ(Resample(three, 44100, 44100), three);
  EXPECT_EQ(Resample({}, 44100, 16000).size(), 0u);
  EXPECT_EQ(Resample(three, 48000, 16000).size(), 1u);
  EXPECT_EQ(Resample(three, 1 << 20, 16000).size(), 1u);
  EXPECT_EQ(Resample(three, 8000, 48000).size(), 18u);
}

// A tone like those of the demo model keeps its pitch rows when the demo's encoder and decoder process it.
TEST(AudioEncoder, WhatTheDemoModelEncodesItDecodesAgain) {
  const ModelFiles files{.paths = {KINORA_SOURCE_DIR "/models/demo/ltx-2.3-demo-dev.safetensors"}};
  const ModelConfig config = ReadModelConfig(*Checkpoint::Open(files).value()).value();
  ModelRig rig(Cpu(), DType::kF32);
  const WeightLoader weights = rig.Open(files);
  KINORA_ASSERT_OK_AND_ASSIGN(const AudioEncoder encoder,
                              AudioEncoder::Load(weights.Under("audio_vae"), config.audio_encoder));
  KINORA_ASSERT_OK_AND_ASSIGN(const AudioDecoder decoder,
                              AudioDecoder::Load(weights.Under("audio_vae"), config.audio_decoder));
  ASSERT_THAT(weights.Finish(), IsOk());
  KINORA_ASSERT_OK_AND_ASSIGN(const MelFrontEnd front, MelFrontEnd::Make(rig.backend(), config.audio_encoder));
  constexpr int64_t kSamples = 96 * 160;  // 97 rows: 4 · 24 + 1
  HostTensor sound(DType::kF32, {2, kSamples});
  for (int64_t i = 0; i < 2 * kSamples; ++i) {
    sound.f32()[i] = 0.3f * std::sin(2 * 3.14159265f * 500 * static_cast<float>(i % kSamples) / 16000);
  }
  const Shape shape{2, front.Rows(kSamples), 64};
  const Tensor mel = rig.Output(DType::kF32, shape), again = rig.Output(DType::kF32, shape);
  front.Forward(rig.exec, rig.Upload(sound.tensor()), mel);
  const Tensor latent = rig.Output(DType::kF32, {encoder.LatentRows(shape[1]), 128});
  encoder.Forward(rig.exec, mel, latent);
  ASSERT_EQ(decoder.MelRows(latent.rows()), shape[1]);
  decoder.Forward(rig.exec, latent, again);
  const double error = RelativeError(rig.Download(again).tensor(), rig.Download(mel).tensor());
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_LT(error, 0.1);
}

TEST(AudioEncoder, AsksForTheKeysOfTheSingleFile) {
  const ModelConfig config = ParseConfig(ReadConfigFile("diffusers_2.3")).value();
  DryBackend backend;
  const auto mesh = Mesh::Single();
  const WeightLoader loader = WeightLoader::Dry(*mesh, backend, DType::kF32);
  ASSERT_THAT(AudioEncoder::Load(loader.Under("audio_vae"), config.audio_encoder).status(), IsOk());
  std::vector<std::string> names;
  for (const RecordedTensor& tensor : loader.recorded()) names.push_back(tensor.name);
  EXPECT_THAT(
      names,
      testing::IsSupersetOf(
          {"audio_vae.per_channel_statistics.mean-of-means", "audio_vae.encoder.conv_in.conv.weight",
           "audio_vae.encoder.down.0.downsample.conv.bias", "audio_vae.encoder.down.2.block.0.nin_shortcut.conv.weight",
           "audio_vae.encoder.mid.block_2.conv2.conv.weight", "audio_vae.encoder.conv_out.conv.weight"}));
  EXPECT_EQ(names.size(), 2u + 2 * (2 + 2 + 2 * (3 * 2 + 2) + 2));
}

TEST(AudioEncoder, AModelWithoutVariancesIsRefusedWhenItIsToEncode) {
  nlohmann::json file = ReadConfigFile("diffusers_2.3");
  file["audio_vae"]["double_z"] = false;
  const ModelConfig config = ParseConfig(file).value();
  DryBackend backend;
  const auto mesh = Mesh::Single();
  EXPECT_THAT(
      AudioEncoder::Load(WeightLoader::Dry(*mesh, backend, DType::kF32).Under("audio_vae"), config.audio_encoder)
          .status(),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("double_z")));
}

}  // namespace
}  // namespace kinora
