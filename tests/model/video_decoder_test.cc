#include "engine/model/video_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/dry_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/video_decoders.h"

namespace kinora {
namespace {

using testing::HasSubstr;

struct Variant {
  std::string generation;
  DType dtype;
};

class VideoDecoderGolden : public testing::TestWithParam<Variant> {};

TEST_P(VideoDecoderGolden, FramesAndEveryStageEqualTheReference) {
  const auto& [generation, dtype] = GetParam();
  LoadedVideoDecoder loaded(generation, dtype);
  const HostTensor latent = ToChannelsLast(loaded.golden().Get("in.latent"));
  const HostTensor expected = ToChannelsLast(loaded.golden().Get("out.frames"));
  HostTensor frames(DType::kF32, expected.tensor().shape());
  std::fill_n(frames.f32(), frames.tensor().elements(), std::numeric_limits<float>::quiet_NaN());

  const double tolerance = Tolerance(TestBackend::kCpu, dtype);
  TapCheck taps(loaded.golden(), tolerance, GoldenLayout::kChannelsFirst);
  const int64_t bytes = loaded.decoder().ArenaBytes(dtype, latent.tensor().shape());
  Exec exec = loaded.MakeExec(bytes, &taps.taps());
  ASSERT_EQ(loaded.decoder().OutputShape(latent.tensor().shape()), expected.tensor().shape());
  loaded.decoder().Forward(exec, latent.tensor(), frames.tensor());
  ASSERT_THAT(exec.ops.stream().Synchronize(), IsOk());
  EXPECT_TRUE(taps.Result());
  EXPECT_GE(taps.compared(), 6);
  EXPECT_TRUE(Near(frames.tensor(), expected.tensor(), tolerance));
  EXPECT_EQ(loaded.arena().peak(), bytes);  // the dry run said exactly what was needed
}

INSTANTIATE_TEST_SUITE_P(All, VideoDecoderGolden,
                         testing::Values(Variant{"2_0", DType::kF32}, Variant{"2_3", DType::kF32},
                                         Variant{"2_0", DType::kBF16}, Variant{"2_3", DType::kBF16}),
                         [](const auto& info) {
                           return info.param.generation + "_" + std::string(DTypeName(info.param.dtype));
                         });

TEST(VideoDecoder, ReplayingACaptureWithAnotherLatentEqualsEager) {
  LoadedVideoDecoder loaded("2_3");
  const HostTensor latent = ToChannelsLast(loaded.golden().Get("in.latent"));
  const Shape shape = latent.tensor().shape();
  HostTensor input(DType::kF32, shape), eager(DType::kF32, loaded.decoder().OutputShape(shape));
  HostTensor replayed(DType::kF32, eager.tensor().shape());
  Exec exec = loaded.MakeExec(loaded.decoder().ArenaBytes(DType::kF32, shape));
  loaded.decoder().Forward(exec, latent.tensor(), eager.tensor());
  std::fill_n(input.f32(), input.tensor().elements(), std::numeric_limits<float>::quiet_NaN());
  auto graph = exec.ops.stream().Capture([&] { loaded.decoder().Forward(exec, input.tensor(), replayed.tensor()); });
  ASSERT_THAT(graph.status(), IsOk());
  std::copy_n(latent.tensor().data<float>(), latent.tensor().elements(), input.f32());
  (*graph)->Replay();
  EXPECT_EQ(RelativeError(replayed.tensor(), eager.tensor()), 0);
}

// A decoder without weights in memory, and the ops that counted them.
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
