#include "engine/model/video_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/dry_backend.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/video_decoders.h"

namespace kinora {
namespace {

using testing::HasSubstr;

class VideoDecoderGolden : public testing::TestWithParam<std::tuple<const char*, DType, TestedBackend>> {};

TEST_P(VideoDecoderGolden, FramesAndEveryStageEqualTheReference) {
  const auto& [generation, dtype, on] = GetParam();
  Golden golden(std::string("video_decoder_") + generation);
  TapCheck taps(golden, Tolerance(on, dtype), GoldenLayout::kChannelsFirst);
  ModelRig rig(on, dtype, &taps.taps());
  WeightLoader weights = rig.Open({.paths = {golden.WriteCheckpoint()}});
  KINORA_ASSERT_OK_AND_ASSIGN(const VideoDecoder decoder, VideoDecoder::Load(weights.Under("vae"), ConfigOf(golden)));
  ASSERT_THAT(weights.Finish(), IsOk());
  const HostTensor latent = ToChannelsLast(golden.Get("in.latent"));
  const HostTensor expected = ToChannelsLast(golden.Get("out.frames"));
  const Shape shape = latent.tensor().shape();
  ASSERT_EQ(decoder.OutputShape(shape), expected.tensor().shape());
  const Tensor frames = rig.Output(DType::kF32, expected.tensor().shape());
  decoder.Forward(rig.exec, rig.Upload(latent.tensor()), frames);
  EXPECT_TRUE(Near(rig.Floats(frames), expected.tensor(), rig.tolerance));
  EXPECT_TRUE(taps.Result());
  EXPECT_GE(taps.compared(), 6);
  EXPECT_EQ(rig.arena.peak(), ArenaBytesOf(decoder, dtype, shape));  // the dry run reported exactly the memory needed
}

INSTANTIATE_TEST_SUITE_P(All, VideoDecoderGolden,
                         testing::Combine(testing::Values("2_0", "2_3"), testing::Values(DType::kF32, DType::kBF16),
                                          testing::ValuesIn(Backends())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(DTypeName(std::get<1>(info.param))) + "_" + std::get<2>(info.param).name;
                         });

TEST(VideoDecoder, ReplayingACaptureWithAnotherLatentEqualsEager) {
  LoadedVideoDecoder loaded("2_3");
  const HostTensor latent = ToChannelsLast(loaded.golden().Get("in.latent"));
  const Shape shape = latent.tensor().shape();
  HostTensor input(DType::kF32, shape), eager(DType::kF32, loaded.decoder().OutputShape(shape));
  HostTensor replayed(DType::kF32, eager.tensor().shape());
  Exec exec = loaded.MakeExec(ArenaBytesOf(loaded.decoder(), DType::kF32, shape));
  loaded.decoder().Forward(exec, latent.tensor(), eager.tensor());
  std::fill_n(input.f32(), input.tensor().elements(), std::numeric_limits<float>::quiet_NaN());
  auto graph = exec.ops.stream().Capture([&] { loaded.decoder().Forward(exec, input.tensor(), replayed.tensor()); });
  ASSERT_THAT(graph.status(), IsOk());
  std::copy_n(latent.tensor().data<float>(), latent.tensor().elements(), input.f32());
  (*graph)->Replay();
  EXPECT_EQ(RelativeError(replayed.tensor(), eager.tensor()), 0);
}

// A decoder without weights in memory, and the backend that counts its cost.
struct DryDecoder {
  explicit DryDecoder(const VideoDecoderConfig& config)
      : loader(WeightLoader::Dry(*mesh, backend, DType::kBF16)),
        decoder(*VideoDecoder::Load(loader.Under("vae"), config)) {}

  double TeraFlops(const Shape& latent) {
    Arena arena = Arena::Dry();
    Exec exec{.backend = backend, .arena = arena, .host = arena, .mesh = *mesh, .dtype = DType::kBF16};
    backend.ops().ResetCost();
    decoder.Forward(exec, Tensor(DType::kF32, latent, nullptr),
                    Tensor(DType::kF32, decoder.OutputShape(latent), nullptr));
    return static_cast<double>(backend.ops().cost().flops()) * 1e-12;
  }

  std::unique_ptr<Mesh> mesh = Mesh::Single();
  DryBackend backend;
  WeightLoader loader;
  VideoDecoder decoder;
};

double RoundedMillions(int64_t count) { return std::round(static_cast<double>(count) * 1e-5) / 10; }

TEST(VideoDecoder, ReleasedModelsHaveTheirKnownParameters) {
  EXPECT_DOUBLE_EQ(RoundedMillions(DryDecoder(ReleasedVideoDecoder("2.0")).backend.ops().parameters()), 528.4);
  EXPECT_DOUBLE_EQ(RoundedMillions(DryDecoder(ReleasedVideoDecoder("2.3")).backend.ops().parameters()), 407.2);
}

TEST(VideoDecoder, ReleasedModelsCostTheirKnownFlops) {
  DryDecoder v20(ReleasedVideoDecoder("2.0")), v23(ReleasedVideoDecoder("2.3"));
  EXPECT_NEAR(v20.TeraFlops({16, 16, 24, 128}), 60, 0.02 * 60);
  EXPECT_NEAR(v20.TeraFlops({16, 24, 40, 128}), 151, 0.02 * 151);
  EXPECT_NEAR(v23.TeraFlops({16, 16, 24, 128}), 118, 0.02 * 118);
  EXPECT_NEAR(v23.TeraFlops({16, 24, 40, 128}), 294, 0.02 * 294);
}

TEST(VideoDecoder, AsksForTheKeysOfTheSingleFile) {
  DryDecoder v23(ReleasedVideoDecoder("2.3"));
  const std::vector<RecordedTensor>& recorded = v23.loader.recorded();
  std::vector<std::string> names;
  names.reserve(recorded.size());
  for (const RecordedTensor& tensor : recorded) names.push_back(tensor.name);
  EXPECT_THAT(names,
              testing::IsSupersetOf({"vae.per_channel_statistics.mean-of-means",
                                     "vae.per_channel_statistics.std-of-means", "vae.decoder.conv_in.conv.weight",
                                     "vae.decoder.conv_out.conv.bias", "vae.decoder.up_blocks.1.conv.conv.weight",
                                     "vae.decoder.up_blocks.8.res_blocks.3.conv2.conv.bias"}));
  EXPECT_EQ(names.size(), 2u + 2 * (2 + 4 + 2 * (2 + 2 + 4 + 6 + 4)));
}

absl::Status LoadStatus(const VideoDecoderConfig& config) {
  DryBackend backend;
  const auto mesh = Mesh::Single();
  return VideoDecoder::Load(WeightLoader::Dry(*mesh, backend, DType::kF32).Under("vae"), config).status();
}

TEST(VideoDecoder, ABlockListThatDoesNotFitTogetherIsRefusedByItsEntry) {
  const VideoDecoderConfig tiny = ConfigOf(Golden("video_decoder_2_0"));
  VideoDecoderConfig config = tiny;
  config.blocks[2].in_channels = 17;
  EXPECT_THAT(LoadStatus(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("number 2")));
  config = tiny;
  config.blocks[0].out_channels = 16;
  EXPECT_THAT(LoadStatus(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("number 0")));
  config = tiny;
  config.blocks[1].stride = {2, 3, 2};
  EXPECT_THAT(LoadStatus(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stride")));
  config = tiny;
  config.blocks[1].in_channels = config.blocks[0].in_channels = config.blocks[0].out_channels = 36;
  EXPECT_THAT(LoadStatus(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("residual")));
  config.blocks.clear();
  EXPECT_THAT(LoadStatus(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
}

TEST(VideoDecoder, AClipTooSmallToReflectIsRefusedByTheNameOfTheSide) {
  const DryDecoder v20(ReleasedVideoDecoder("2.0")), v23(ReleasedVideoDecoder("2.3"));
  EXPECT_THAT(v20.decoder.CheckLatent({1, 1, 2, 128}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("height must be at least 64")));
  EXPECT_THAT(v20.decoder.CheckLatent({1, 2, 1, 128}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("width must be at least 64")));
  EXPECT_THAT(v20.decoder.CheckLatent({1, 2, 2, 128}), IsOk());
  EXPECT_THAT(v23.decoder.CheckLatent({1, 1, 1, 128}), IsOk());
}

}  // namespace
}  // namespace kinora
