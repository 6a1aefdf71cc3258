#include "engine/model/latent_upsampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/model/video_decoder.h"
#include "engine/model/video_encoder.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_run.h"
#include "tests/model/moving_disc.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temporary_directory.h"

namespace kinora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kComponent = "spatial_upsampler";

// Writes a VAE file that contains only its statistics.
std::string WriteStatistics(const TemporaryDirectory& folder, const Tensor& mean, const Tensor& std) {
  const std::string path = folder.File("vae.safetensors");
  const absl::Status written = WriteSafetensors(
      path, {{"vae.per_channel_statistics.mean-of-means", mean}, {"vae.per_channel_statistics.std-of-means", std}});
  KINORA_CHECK(written.ok()) << written.ToString();
  return path;
}

// Copies the file with renamed tensors; omits tensors whose new name is empty.
std::string Renamed(const TemporaryDirectory& folder, const std::string& from,
                    const std::function<std::string(std::string)>& rename) {
  const auto file = *SafetensorsFile::Open(from);
  SafetensorsWriter writer;
  for (const auto& [key, value] : file->metadata()) writer.SetMetadata(key, value);
  for (const TensorInfo& t : file->tensors()) {
    if (!rename(t.name).empty()) writer.Declare(rename(t.name), t.dtype, t.shape);
  }
  const std::string path = folder.File("renamed.safetensors");
  absl::Status status = writer.Open(path);
  for (const TensorInfo& t : file->tensors()) {
    if (rename(t.name).empty()) continue;
    std::vector<char> data(t.bytes);
    status.Update(file->Read(t, 0, t.bytes, data.data()));
    status.Update(writer.Append(rename(t.name), data.data(), t.bytes));
  }
  status.Update(writer.Close());
  KINORA_CHECK(status.ok()) << status.ToString();
  return path;
}

ModelFiles FilesOf(Golden& golden, const TemporaryDirectory& folder, std::string upsampler) {
  return {.paths = {WriteStatistics(folder, golden.Get("in.mean"), golden.Get("in.std"))},
          .spatial_upsampler = std::move(upsampler)};
}

absl::StatusOr<LatentUpsampler> LoadFrom(const WeightLoader& weights, const ModelFiles& files) {
  KINORA_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(files));
  KINORA_ASSIGN_OR_RETURN(const UpsamplerConfig config, ReadUpsamplerConfig(*checkpoint, kComponent));
  KINORA_ASSIGN_OR_RETURN(LatentUpsampler upsampler,
                          LatentUpsampler::Load(weights.Under(kComponent), weights.Under("vae"), config));
  KINORA_RETURN_IF_ERROR(weights.Finish());
  return upsampler;
}

class UpsamplerGolden : public testing::TestWithParam<std::tuple<const char*, DType, TestedBackend>> {};

TEST_P(UpsamplerGolden, TheLatentAndEveryBlockEqualTheReference) {
  const auto& [name, dtype, on] = GetParam();
  Golden golden(name);
  TapCheck taps(golden, Tolerance(on, dtype), GoldenLayout::kChannelsFirst);
  ModelRig rig(on, dtype, &taps.taps());
  const TemporaryDirectory folder;
  const ModelFiles files = FilesOf(golden, folder, golden.WriteCheckpoint());
  const WeightLoader weights = rig.Open(files);
  KINORA_ASSERT_OK_AND_ASSIGN(const LatentUpsampler upsampler, LoadFrom(weights, files));
  const HostTensor latent = ToChannelsLast(golden.Get("in.latent"));
  const HostTensor expected = ToChannelsLast(golden.Get("out.latent"));
  const Shape shape = latent.tensor().shape();
  ASSERT_EQ(upsampler.config().OutputShape(shape), expected.tensor().shape());
  const Tensor out = rig.Output(DType::kF32, expected.tensor().shape());
  upsampler.Forward(rig.exec, rig.Upload(latent.tensor()), out);
  EXPECT_TRUE(Near(rig.Floats(out), expected.tensor(), rig.tolerance));
  EXPECT_TRUE(taps.Result());
  EXPECT_EQ(taps.compared(), static_cast<int>(golden.Names("tap.").size()));
  const int64_t dry = DryRunArenaBytes(dtype, [&](Exec& exec) {
    upsampler.Forward(exec, Tensor(DType::kF32, shape, nullptr),
                      Tensor(DType::kF32, expected.tensor().shape(), nullptr));
  });
  EXPECT_EQ(rig.arena.peak(), dry);  // the dry run reported exactly the memory needed
}

constexpr const char* kCases[] = {"upsampler_x2", "upsampler_x2_rational", "upsampler_x1_5", "upsampler_temporal_x2",
                                  "upsampler_x2_frames"};
INSTANTIATE_TEST_SUITE_P(All, UpsamplerGolden,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(DType::kF32, DType::kBF16),
                                          testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::string(DTypeName(std::get<1>(info.param))), "_",
                                               std::get<2>(info.param).name);
                         });

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  if (const size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(LatentUpsampler, EveryPublishedSpellingOfItsKeysGivesTheSameLatent) {
  Golden golden("upsampler_x1_5");
  const HostTensor latent = ToChannelsLast(golden.Get("in.latent"));
  const auto run = [&](const ModelFiles& files) {
    ModelRig rig(Cpu(), DType::kF32);
    const WeightLoader weights = rig.Open(files);
    const LatentUpsampler upsampler = LoadFrom(weights, files).value();
    const Tensor out = rig.Output(DType::kF32, upsampler.config().OutputShape(latent.tensor().shape()));
    upsampler.Forward(rig.exec, rig.Upload(latent.tensor()), out);
    return rig.Floats(out);
  };
  const TemporaryDirectory folder;
  const std::string path = golden.WriteCheckpoint();
  const std::vector<float> usual = run(FilesOf(golden, folder, path));
  for (const auto& [from, to] : {std::pair("upsampler.conv", "upsampler.0"), {"blur_down.kernel", "blur.kernel"}}) {
    const TemporaryDirectory other;
    const auto rename = [&](std::string name) { return Replaced(std::move(name), from, to); };
    EXPECT_EQ(run(FilesOf(golden, other, Renamed(other, path, rename))), usual) << to;
  }
}

TEST(LatentUpsampler, AFilterThatAWholeFactorDoesNotNeedIsNotLoaded) {
  for (const auto& [name, loaded] : {std::pair("upsampler_x2_rational", 0), {"upsampler_x1_5", 1}}) {
    Golden golden(name);
    ASSERT_TRUE(golden.Has("weights.upsampler.blur_down.kernel"));
    ModelRig rig(Cpu(), DType::kF32);
    const TemporaryDirectory folder;
    const ModelFiles files = FilesOf(golden, folder, golden.WriteCheckpoint());
    const WeightLoader weights = rig.Open(files);
    ASSERT_THAT(LoadFrom(weights, files), IsOk());
    int64_t bytes = 4 * golden.Get("in.mean").bytes();  // the statistics, which are read twice
    for (const std::string& weight : golden.Names("weights.")) {
      if (weight.find("norm") != std::string::npos) bytes += golden.Get(weight).bytes();
    }
    EXPECT_EQ(weights.tensor_bytes(), bytes + loaded * golden.Get("weights.upsampler.blur_down.kernel").bytes())
        << name;
  }
}

absl::Status LoadingOf(Golden& golden, const std::function<std::string(std::string)>& rename) {
  ModelRig rig(Cpu(), DType::kF32);
  const TemporaryDirectory folder;
  const ModelFiles files = FilesOf(golden, folder, Renamed(folder, golden.WriteCheckpoint(), rename));
  return LoadFrom(rig.Open(files), files).status();
}

TEST(LatentUpsampler, MissingAndUnknownTensorsAreRefusedByName) {
  Golden golden("upsampler_x1_5");
  const auto rename = [](std::string_view from, std::string_view to) {
    return [=](std::string name) { return name == from ? std::string(to) : name; };
  };
  EXPECT_THAT(LoadingOf(golden, rename("res_blocks.0.norm2.bias", "")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("spatial_upsampler.res_blocks.0.norm2.bias: missing; the model needs it as [32]")));
  EXPECT_THAT(LoadingOf(golden, rename("upsampler.blur_down.kernel", "")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("upsampler.blur_down.kernel: missing")));
  EXPECT_THAT(
      LoadingOf(golden, rename("initial_norm.weight", "initial_norm.gain")),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("initial_norm.weight: missing"),
                                                         HasSubstr("tensor initial_norm.gain: nothing reads it"))));
}

TEST(LatentUpsampler, AVaeOfOtherChannelsIsRefused) {
  Golden golden("upsampler_x2");
  ModelRig rig(Cpu(), DType::kF32);
  const TemporaryDirectory folder;
  HostTensor six(DType::kF32, {6});
  std::fill_n(six.f32(), 6, 1.0f);
  const ModelFiles files{.paths = {WriteStatistics(folder, six.tensor(), six.tensor())},
                         .spatial_upsampler = golden.WriteCheckpoint()};
  EXPECT_THAT(LoadFrom(rig.Open(files), files).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mean-of-means: shape [6], the configuration")));
}

TEST(LatentUpsampler, TheDemoModelsEnlargesWhatTheDemoModelEncodes) {
  const std::string demo = KINORA_SOURCE_DIR "/models/demo/ltx-2.3-demo-";
  const ModelFiles files{.paths = {demo + "dev.safetensors"},
                         .spatial_upsampler = demo + "spatial-upscaler-x2.safetensors"};
  const ModelConfig config = ReadModelConfig(*Checkpoint::Open(files).value()).value();
  ModelRig rig(Cpu(), DType::kF32);
  const WeightLoader weights = rig.Open(files);
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoEncoder encoder,
                              VideoEncoder::Load(weights.Under("vae"), config.video_encoder));
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoDecoder decoder,
                              VideoDecoder::Load(weights.Under("vae"), config.video_decoder));
  KINORA_ASSERT_OK_AND_ASSIGN(const LatentUpsampler upsampler, LoadFrom(weights, files));
  EXPECT_FALSE(upsampler.config().over_time);
  const HostTensor small = MovingDisc(25, 64), large = MovingDisc(25, 128);
  const Tensor latent = rig.Output(DType::kF32, encoder.OutputShape(small.tensor().shape()));
  encoder.Forward(rig.exec, rig.Upload(small.tensor()), latent);
  const Tensor enlarged = rig.Output(DType::kF32, upsampler.config().OutputShape(latent.shape()));
  upsampler.Forward(rig.exec, latent, enlarged);
  ASSERT_EQ(decoder.OutputShape(enlarged.shape()), large.tensor().shape());
  const Tensor pixels = rig.Output(DType::kF32, large.tensor().shape());
  decoder.Forward(rig.exec, enlarged, pixels);
  const double psnr = Psnr(rig.Floats(pixels), large.tensor());
  RecordProperty("psnr_db", std::to_string(psnr));
  EXPECT_GT(psnr, 20);
}

int64_t Parameters(const UpsamplerConfig& config) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  const WeightLoader loader = WeightLoader::Dry(*mesh, backend, DType::kBF16);
  EXPECT_TRUE(LatentUpsampler::Load(loader.Under(kComponent), loader.Under("vae"), config).ok());
  return loader.recorded_elements() - 4 * config.latent_channels;  // minus the statistics, which are read twice
}

TEST(LatentUpsampler, TheReleasedSizeHasItsKnownParameters) {
  const UpsamplerConfig x2{.mid_channels = 1024};
  const int64_t block = 2 * (27 * 1024 * 1024 + 1024 + 2 * 1024);
  EXPECT_EQ(Parameters(x2),
            8 * block + (27 * 128 * 1024 + 1024 + 2 * 1024) + (9 * 1024 * 4096 + 4096) + (27 * 1024 * 128 + 128));
}

}  // namespace
}  // namespace kinora
