#include "engine/pipeline/video_decode_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/ops/backend.h"
#include "engine/ops/dry_backend.h"
#include "engine/parallel/dry_communicator.h"
#include "engine/pipeline/convolution_decoder.h"
#include "engine/weights/checkpoint.h"
#include "tests/testing/backends.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/video_decoders.h"

namespace kinora {
namespace {

using testing::HasSubstr;

absl::Status NoProgress(int64_t, int64_t) { return absl::OkStatus(); }

// Records everything that a run emits.
struct Clip {
  std::vector<int64_t> first;
  std::vector<float> rgb;
  std::vector<uint8_t> rgb8;

  absl::Status Add(const DecodedFrames& frames) {
    first.push_back(frames.first);
    if (frames.rgb.defined()) {
      EXPECT_EQ(frames.rgb.shape(), frames.rgb8.shape());
      rgb.insert(rgb.end(), frames.rgb.data<float>(), frames.rgb.data<float>() + frames.rgb.elements());
    }
    rgb8.insert(rgb8.end(), frames.rgb8.data<uint8_t>(), frames.rgb8.data<uint8_t>() + frames.rgb8.elements());
    return absl::OkStatus();
  }
};

// A latent [F, H, W, C] in device memory.
class DeviceLatent {
 public:
  DeviceLatent(Backend& backend, const Tensor& host) : memory_(*backend.Allocate(host.bytes(), "a latent")) {
    tensor_ = memory_.View(host.dtype(), host.shape());
    backend.ops().stream().CopyFromHost(host.raw(), tensor_);
  }
  const Tensor& tensor() const { return tensor_; }

 private:
  Buffer memory_;
  Tensor tensor_;
};

absl::StatusOr<HostNoise> NoNoise(bool) { return HostNoise{}; }

struct StageMemory {
  int64_t device = 0;  // in exec.arena
  int64_t host = 0;
};

// Returns the memory that a dry run reserves for Run on rank 0, which needs the most.
absl::StatusOr<StageMemory> MemoryFor(const FrameDecoder& decoder, std::optional<Tiling> tiling, DType dtype,
                                      const Shape& latent, const MeshShape& mesh_shape = {},
                                      const BackendTraits& traits = *TraitsOf("cpu", {})) {
  DryBackend backend(traits);
  Arena device = Arena::Dry(), host = Arena::Dry();
  KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeDryMesh(mesh_shape));
  Exec exec{.backend = backend, .arena = device, .host = host, .mesh = *mesh, .dtype = dtype};
  const auto nothing = [](auto&&...) { return absl::OkStatus(); };
  const VideoDecodeStage stage(decoder);
  KINORA_ASSIGN_OR_RETURN(const TilePlan plan, decoder.Plan(latent, tiling));
  KINORA_RETURN_IF_ERROR(stage.Run(exec, plan, Tensor(DType::kF32, latent, nullptr), NoNoise,
                                   {.emit = nothing, .progress = nothing, .work = &absl::OkStatus}));
  return StageMemory{.device = device.peak(), .host = host.peak()};
}

// Runs the stage in exactly the memory that it requests. `latent` is [F, H, W, C] in host memory.
absl::Status Decode(LoadedVideoDecoder& loaded, std::optional<Tiling> tiling, const Tensor& latent, DType dtype,
                    Clip& clip, bool floats = true) {
  const auto memory = MemoryFor(ConvolutionDecoder(loaded.shared_decoder()), tiling, dtype, latent.shape(), {},
                                loaded.backend().traits());
  if (!memory.ok()) return memory.status();
  Arena host(*loaded.backend().AllocateHost(memory->host, "the host's side of a test"));
  Exec exec = loaded.MakeExec(memory->device, nullptr, &host);
  const ConvolutionDecoder decoder(loaded.shared_decoder());
  const VideoDecodeStage stage(decoder);
  const DeviceLatent on_device(loaded.backend(), latent);
  const auto emit = [&](const DecodedFrames& frames) { return clip.Add(frames); };
  absl::Status status = stage.Run(exec, *decoder.Plan(latent.shape(), tiling), on_device.tensor(), NoNoise,
                                  {.emit = emit, .progress = NoProgress, .work = &absl::OkStatus, .floats = floats});
  EXPECT_EQ(loaded.arena().peak(), memory->device);
  EXPECT_EQ(host.peak(), memory->host);
  return status;
}

struct TiledCase {
  std::string generation;
  Tiling tiling;
  DType dtype;
};

class TiledGolden : public testing::TestWithParam<std::tuple<TiledCase, TestedBackend>> {};

TEST_P(TiledGolden, BlendedFramesEqualLightricksTiledDecode) {
  const auto& [c, on] = GetParam();
  LoadedVideoDecoder loaded(c.generation, c.dtype, on);
  Golden golden("video_decoder_" + c.generation + "_tiled");
  const HostTensor latent = ToChannelsLast(golden.Get("in.latent"));
  Clip clip;
  ASSERT_THAT(Decode(loaded, c.tiling, latent.tensor(), c.dtype, clip), IsOk());

  const HostTensor expected = ToChannelsLast(golden.Get("out.frames"));  // every fifth row and column, in -1..1
  const Shape& s = expected.tensor().shape();
  const int64_t height = 32 * latent.tensor().dim(1), width = 32 * latent.tensor().dim(2);
  ASSERT_EQ(static_cast<int64_t>(clip.rgb.size()), s[0] * height * width * 3);
  HostTensor actual(DType::kF32, s), wanted(DType::kF32, s);
  float* a = actual.f32();
  for (int64_t f = 0; f < s[0]; ++f) {
    for (int64_t y = 0; y < height; y += 5) {
      for (int64_t x = 0; x < width; x += 5) a = std::copy_n(&clip.rgb[((f * height + y) * width + x) * 3], 3, a);
    }
  }
  for (int64_t i = 0; i < s.elements(); ++i) {
    wanted.f32()[i] = std::clamp((expected.tensor().data<float>()[i] + 1) / 2, 0.0f, 1.0f);
  }
  EXPECT_TRUE(Near(actual.tensor(), wanted.tensor(), Tolerance(on, c.dtype)));
}

// A decode on a simulated device takes more than a minute, so only one case runs there. The decoder's own test covers
// the others.
std::vector<std::tuple<TiledCase, TestedBackend>> TiledCases() {
  const TiledCase all[] = {{"2_3", {.frames = {24, 8}, .height = {64, 32}, .width = {64, 0}}, DType::kF32},
                           {"2_0", {.frames = {16, 8}, .height = {64, 32}, .width = {96, 64}}, DType::kF32},
                           {"2_3", {.frames = {24, 8}, .height = {64, 32}, .width = {64, 0}}, DType::kBF16}};
  std::vector<std::tuple<TiledCase, TestedBackend>> cases;
  for (const TestedBackend& backend : Backends()) {
    for (const TiledCase& c : all) {
      if (backend.name != std::string_view("cuda") || c.dtype == DType::kBF16) cases.emplace_back(c, backend);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, TiledGolden, testing::ValuesIn(TiledCases()), [](const auto& info) {
  const TiledCase& c = std::get<0>(info.param);
  return c.generation + "_" + std::string(DTypeName(c.dtype)) + "_" + std::get<1>(info.param).name;
});

// A reproducible, non-zero latent [F, H, W, 16] for the golden decoders.
HostTensor Latent(const Shape& shape) {
  HostTensor latent(DType::kF32, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) latent.f32()[i] = std::sin(0.37f * static_cast<float>(i) + 1);
  return latent;
}

constexpr Tiling kSmallTiles = {.frames = {24, 8}, .height = {64, 32}, .width = {64, 32}};

TEST(VideoDecodeStage, WithoutTilesItIsTheDecoder) {
  LoadedVideoDecoder loaded("2_3");
  const HostTensor latent = ToChannelsLast(loaded.golden().Get("in.latent"));
  const HostTensor expected = ToChannelsLast(loaded.golden().Get("out.frames"));
  Clip clip;
  ASSERT_THAT(Decode(loaded, std::nullopt, latent.tensor(), DType::kF32, clip), IsOk());
  ASSERT_EQ(static_cast<int64_t>(clip.rgb.size()), expected.tensor().elements());
  for (size_t i = 0; i < clip.rgb.size(); ++i) {
    const float wanted = std::clamp((expected.tensor().data<float>()[i] + 1) / 2, 0.0f, 1.0f);
    ASSERT_NEAR(clip.rgb[i], wanted, 1e-5) << i;
    ASSERT_EQ(clip.rgb8[i], static_cast<int>(clip.rgb[i] * 255)) << i;  // truncated, not rounded
  }
}

TEST(VideoDecodeStage, FramesLeaveInOrderAsSoonAsTheirGroupIsDone) {
  LoadedVideoDecoder loaded("2_3");
  const HostTensor latent = Latent({8, 2, 3, 16});  // 57 frames in groups of three cells, two apart
  const ConvolutionDecoder decoder(loaded.shared_decoder());
  const VideoDecodeStage stage(decoder);
  const TilePlan plan = *decoder.Plan(latent.tensor().shape(), kSmallTiles);
  const auto memory =
      *MemoryFor(ConvolutionDecoder(loaded.shared_decoder()), kSmallTiles, DType::kF32, latent.tensor().shape());
  Arena host(*Buffer::Allocate(memory.host));
  Exec exec = loaded.MakeExec(memory.device, nullptr, &host);
  int64_t next = 0, tiles_begun = 0, total = 0;
  const int64_t tiles_a_group = plan.tiles() / static_cast<int64_t>(plan.time.size());
  const auto emit = [&](const DecodedFrames& frames) {
    EXPECT_EQ(frames.first, next);
    EXPECT_LE(frames.rgb8.dim(0), VideoDecodeStage::kFramesPerCall);
    EXPECT_FALSE(frames.rgb.defined());
    EXPECT_EQ(tiles_begun % tiles_a_group, 0);  // no later group began before these frames were emitted
    EXPECT_LT(frames.first, plan.ReadyUntil(tiles_begun / tiles_a_group - 1));
    next += frames.rgb8.dim(0);
    return absl::OkStatus();
  };
  const auto progress = [&](int64_t done, int64_t all) {
    EXPECT_EQ(done, tiles_begun < all ? tiles_begun : all);
    ++tiles_begun;
    total = all;
    if (done == all) --tiles_begun;
    return absl::OkStatus();
  };
  ASSERT_THAT(
      stage.Run(exec, plan, latent.tensor(), NoNoise, {.emit = emit, .progress = progress, .work = &absl::OkStatus}),
      IsOk());
  EXPECT_EQ(next, 57);
  EXPECT_EQ(total, plan.tiles());
  EXPECT_EQ(tiles_begun, plan.tiles());
  EXPECT_GE(plan.time.size(), 3u);
}

TEST(VideoDecodeStage, WhereRampsMeetFramesAreDividedByTheSumOfTheMasks) {
  LoadedVideoDecoder loaded("2_3");
  const Tiling tiling{.height = {96, 64}};  // five rows in tiles of three: the middle one is all ramp
  const HostTensor latent = Latent({1, 5, 2, 16});
  const TilePlan plan = *PlanTiles({.frames = 1, .height = 5, .width = 2}, tiling);
  ASSERT_FALSE(plan.complementary);
  std::vector<double> sum(160 * 64 * 3), weight(160);
  for (const AxisTile& tile : plan.height) {
    HostTensor z(DType::kF32, {1, 3, 2, 16}), pixels(DType::kF32, {1, 96, 64, 3});
    std::copy_n(latent.tensor().data<float>() + tile.begin * 2 * 16, 3 * 2 * 16, z.f32());
    Exec exec = loaded.MakeExec(ArenaBytesOf(loaded.decoder(), DType::kF32, z.tensor().shape()));
    loaded.decoder().Forward(exec, z.tensor(), pixels.tensor());
    for (int64_t y = 0; y < 96; ++y) {
      weight[tile.out_begin + y] += tile.mask[y];
      for (int64_t i = 0; i < 64 * 3; ++i) {
        sum[(tile.out_begin + y) * 64 * 3 + i] += static_cast<double>(tile.mask[y]) * pixels.f32()[y * 64 * 3 + i];
      }
    }
  }
  Clip clip;
  ASSERT_THAT(Decode(loaded, tiling, latent.tensor(), DType::kF32, clip), IsOk());
  ASSERT_EQ(clip.rgb.size(), sum.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_NEAR(clip.rgb[i], std::clamp((sum[i] / weight[i / (64 * 3)] + 1) / 2, 0.0, 1.0), 2e-6) << i;
  }
}

TEST(VideoDecodeStage, MemoryDoesNotGrowWithTheNumberOfFrames) {
  LoadedVideoDecoder loaded("2_0");
  const auto memory = [&](int64_t frames) {
    return *MemoryFor(ConvolutionDecoder(loaded.shared_decoder()), std::nullopt, DType::kF32, {frames, 8, 12, 16});
  };
  const StageMemory hour = memory(3601);
  EXPECT_EQ(memory(32).device, hour.device);
  EXPECT_EQ(memory(32).host, hour.host);
  EXPECT_LT(memory(4).device, hour.device);
  // The same in real memory: two clips, one more than twice as long, in arenas of the same size (Decode checks the
  // peaks).
  for (int64_t frames : {7, 17}) {
    const HostTensor latent = Latent({frames, 3, 2, 16});
    Clip clip;
    EXPECT_EQ(MemoryFor(ConvolutionDecoder(loaded.shared_decoder()), kSmallTiles, DType::kF32, latent.tensor().shape())
                  ->device,
              MemoryFor(ConvolutionDecoder(loaded.shared_decoder()), kSmallTiles, DType::kF32, {7, 3, 2, 16})->device);
    EXPECT_THAT(Decode(loaded, kSmallTiles, latent.tensor(), DType::kF32, clip), IsOk());
    EXPECT_EQ(static_cast<int64_t>(clip.rgb8.size()), (8 * (frames - 1) + 1) * 96 * 64 * 3);
  }
}

// One rank's decoder with its own backend, loaded from the golden's checkpoint.
struct Rank {
  Rank(const TestedBackend& tested, const Mesh& mesh, const std::string& checkpoint, const VideoDecoderConfig& config)
      : backend(*tested.open({})) {
    ModelFiles files;
    files.paths = {checkpoint};
    WeightLoader loader = *WeightLoader::Open(*Checkpoint::Open(files), mesh, *backend, DType::kF32);
    decoder = std::make_unique<ConvolutionDecoder>(
        std::make_shared<VideoDecoder>(*VideoDecoder::Load(loader.Under("vae"), config)));
  }
  std::unique_ptr<Backend> backend;
  std::unique_ptr<ConvolutionDecoder> decoder;
};

absl::StatusOr<Clip> DecodeOnRank(const TestedBackend& tested, const Mesh& mesh, const std::string& checkpoint,
                                  const VideoDecoderConfig& config, const Tensor& latent,
                                  absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress,
                                  bool floats = true) {
  Rank rank(tested, mesh, checkpoint, config);
  const VideoDecodeStage stage(*rank.decoder);
  const auto memory =
      *MemoryFor(*rank.decoder, kSmallTiles, DType::kF32, latent.shape(), mesh.shape(), tested.traits({}));
  Arena device(*rank.backend->Allocate(memory.device, "pixels")),
      host(*rank.backend->AllocateHost(memory.host, "frames"));
  Exec exec{.backend = *rank.backend, .arena = device, .host = host, .mesh = mesh};
  Clip clip;
  const auto emit = [&](const DecodedFrames& frames) { return clip.Add(frames); };
  const DeviceLatent on_device(*rank.backend, latent);
  KINORA_RETURN_IF_ERROR(stage.Run(exec, *rank.decoder->Plan(latent.shape(), kSmallTiles), on_device.tensor(), NoNoise,
                                   {.emit = emit, .progress = progress, .work = &absl::OkStatus, .floats = floats}));
  return clip;
}

// Ranks that are threads need CPU streams (thread_communicator.h), and a decode on a simulated device takes a minute.
std::vector<TestedBackend> BackendsOfThreads() {
  std::vector<TestedBackend> backends = Backends();
  std::erase_if(backends, [](const TestedBackend& on) { return std::string_view(on.name) == "cuda"; });
  return backends;
}

class FramesThatLeave : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, FramesThatLeave, testing::ValuesIn(BackendsOfThreads()), BackendName);

// Groups of one tile, the shortest possible. A device with separate memory runs one group ahead, so the sums and frames
// of two groups exist at once. Requesting floats makes it wait for each group.
TEST_P(FramesThatLeave, AreTheSameWhetherTheDeviceIsAheadOrNot) {
  LoadedVideoDecoder loaded("2_3", DType::kF32, GetParam());
  const HostTensor latent = Latent({4, 2, 2, 16});
  const Tiling tiling{.frames = {16, 8}};
  ASSERT_EQ(ConvolutionDecoder(loaded.shared_decoder()).Plan(latent.tensor().shape(), tiling)->time.size(), 3u);
  Clip watched, clip;
  ASSERT_THAT(Decode(loaded, tiling, latent.tensor(), DType::kF32, watched), IsOk());
  ASSERT_THAT(Decode(loaded, tiling, latent.tensor(), DType::kF32, clip, /*floats=*/false), IsOk());
  EXPECT_EQ(clip.rgb8.size(), 25u * 64 * 64 * 3);
  EXPECT_EQ(clip.rgb8, watched.rgb8);
  EXPECT_EQ(clip.first, watched.first);
  EXPECT_TRUE(clip.rgb.empty());
  ASSERT_EQ(watched.rgb.size(), clip.rgb8.size());
  for (size_t i = 0; i < clip.rgb8.size(); ++i) ASSERT_EQ(clip.rgb8[i], static_cast<int>(watched.rgb[i] * 255)) << i;
}

class RanksThatDecode : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, RanksThatDecode, testing::ValuesIn(BackendsOfThreads()), BackendName);

TEST_P(RanksThatDecode, ShareOutTheTilesWithoutChangingABit) {
  Golden golden("video_decoder_2_3");
  const std::string checkpoint = golden.WriteCheckpoint();
  const VideoDecoderConfig config = ConfigOf(golden);
  const HostTensor latent = Latent({5, 3, 3, 16});  // two groups of four tiles
  const auto run = [&](const TestedBackend& tested, const MeshShape& shape, bool floats) {
    return RunRanks<Clip>(shape, [&](const Mesh& mesh) {
      return DecodeOnRank(tested, mesh, checkpoint, config, latent.tensor(), NoProgress, floats);
    });
  };
  const Clip alone = run(Backends()[0], {}, /*floats=*/true)[0];
  EXPECT_EQ(alone.rgb.size(), 33u * 96 * 96 * 3);
  for (const MeshShape& shape :
       {MeshShape{.tokens = 2}, MeshShape{.guidance = 2, .tokens = 2}, MeshShape{.tokens = 8}}) {
    const bool floats = shape.guidance > 1;
    const std::vector<Clip> ranks = run(GetParam(), shape, floats);
    EXPECT_EQ(ranks[0].rgb, floats ? alone.rgb : std::vector<float>()) << shape.ToString();
    EXPECT_EQ(ranks[0].rgb8, alone.rgb8) << shape.ToString();
    for (size_t r = 1; r < ranks.size(); ++r) EXPECT_TRUE(ranks[r].rgb8.empty()) << "only rank 0 emits";
  }
}

// Pixels are sent only to rank 0, which already has its own. Otherwise ranks send only the words with which they agree
// on a status.
TEST(VideoDecodeStage, ARankSendsItsOwnTilesOnceAndRankZeroNone) {
  Golden golden("video_decoder_2_3");
  const std::string checkpoint = golden.WriteCheckpoint();
  const VideoDecoderConfig config = ConfigOf(golden);
  const HostTensor latent = Latent({5, 3, 3, 16});  // two groups of four tiles
  LoadedVideoDecoder loaded("2_3");
  const TilePlan plan = *ConvolutionDecoder(loaded.shared_decoder()).Plan(latent.tensor().shape(), kSmallTiles);
  std::vector<int64_t> expected(2, 0);  // bytes of the tiles that each rank decodes
  for (const AxisTile& time : plan.time) {
    int tile = 0;
    for (const AxisTile& rows : plan.height) {
      for (const AxisTile& columns : plan.width) {
        expected[tile++ % 2] += (time.out_end - time.out_begin) * (rows.out_end - rows.out_begin) *
                                (columns.out_end - columns.out_begin) * 3 * static_cast<int64_t>(sizeof(float));
      }
    }
  }
  const auto counts =
      RunRanks<CollectiveCounts>({.tokens = 2}, [&](const Mesh& mesh) -> absl::StatusOr<CollectiveCounts> {
        KINORA_RETURN_IF_ERROR(
            DecodeOnRank(Backends()[0], mesh, checkpoint, config, latent.tensor(), NoProgress).status());
        return mesh.world().counts();
      });
  const auto sent = [&](int rank, Collective op) { return counts[rank][static_cast<int>(op)]; };
  EXPECT_EQ(sent(0, Collective::kGatherTo).bytes, 0);
  EXPECT_EQ(sent(1, Collective::kGatherTo).bytes, expected[1]);
  EXPECT_GT(expected[1], 0);
  EXPECT_EQ(sent(0, Collective::kBroadcast).bytes, 4 * sent(0, Collective::kBroadcast).calls);
  EXPECT_EQ(sent(1, Collective::kBroadcast).bytes, 0);
}

TEST(VideoDecodeStage, AllRanksLeaveWhenRankZeroCancels) {
  Golden golden("video_decoder_2_3");
  const std::string checkpoint = golden.WriteCheckpoint();
  const VideoDecoderConfig config = ConfigOf(golden);
  const HostTensor latent = Latent({5, 3, 3, 16});
  const auto cancel = [](int64_t done, int64_t) {
    return done == 2 ? absl::CancelledError("enough") : absl::OkStatus();
  };
  const auto status = RunRanks<absl::Status>({.tokens = 2}, [&](const Mesh& mesh) -> absl::StatusOr<absl::Status> {
    return absl::StatusOr<absl::Status>(
        DecodeOnRank(Backends()[1], mesh, checkpoint, config, latent.tensor(), cancel).status());
  });
  EXPECT_THAT(status[0], StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  EXPECT_THAT(status[1], StatusIs(absl::StatusCode::kCancelled, HasSubstr("rank 0")));
}

TEST(VideoDecodeStage, ErrorsOfTheSinkAndCancellationEndTheRun) {
  LoadedVideoDecoder loaded("2_3");
  const HostTensor latent = Latent({5, 3, 3, 16});
  const ConvolutionDecoder decoder(loaded.shared_decoder());
  const VideoDecodeStage stage(decoder);
  const TilePlan plan = *decoder.Plan(latent.tensor().shape(), kSmallTiles);
  const auto memory =
      *MemoryFor(ConvolutionDecoder(loaded.shared_decoder()), kSmallTiles, DType::kF32, latent.tensor().shape());
  Arena host(*Buffer::Allocate(memory.host));
  Exec exec = loaded.MakeExec(memory.device, nullptr, &host);
  int calls = 0;
  const auto full = [&](const DecodedFrames&) {
    ++calls;
    return absl::ResourceExhaustedError("disk full");
  };
  EXPECT_THAT(
      stage.Run(exec, plan, latent.tensor(), NoNoise, {.emit = full, .progress = NoProgress, .work = &absl::OkStatus}),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_EQ(calls, 1);
  const auto cancel = [](int64_t done, int64_t) {
    return done == 3 ? absl::CancelledError("cancelled") : absl::OkStatus();
  };
  const auto take = [](const DecodedFrames&) { return absl::OkStatus(); };
  EXPECT_THAT(
      stage.Run(exec, plan, latent.tensor(), NoNoise, {.emit = take, .progress = cancel, .work = &absl::OkStatus}),
      StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
  EXPECT_EQ(loaded.arena().used(), 0);
  EXPECT_EQ(host.used(), 0);
}

TEST(VideoDecodeStage, ANanIsAnErrorAndNotAFrame) {
  LoadedVideoDecoder loaded("2_3");
  HostTensor latent = Latent({2, 2, 2, 16});
  latent.f32()[5] = std::numeric_limits<float>::quiet_NaN();
  Clip clip;
  EXPECT_THAT(Decode(loaded, std::nullopt, latent.tensor(), DType::kF32, clip),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("frame 0")));
}

TEST(VideoDecodeStage, SizesAndTilingsThatDoNotFitAreRefused) {
  LoadedVideoDecoder loaded("2_0");
  EXPECT_THAT(ConvolutionDecoder(loaded.shared_decoder()).Plan({3, 1, 4, 16}, std::nullopt).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("height")));
  EXPECT_THAT(ConvolutionDecoder(loaded.shared_decoder()).Plan({3, 4, 4, 16}, Tiling{.frames = {20, 8}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("frames 20")));
}

}  // namespace
}  // namespace kinora
