// The diffusion decoder in tiles: against Lightricks' code, on ranks, and what its plan depends on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/config/released_models.h"
#include "engine/pipeline/decoder_noise.h"
#include "engine/pipeline/diffusion_decoder.h"
#include "engine/pipeline/diffusion_tiling.h"
#include "engine/pipeline/video_decode_stage.h"
#include "nlohmann/json.hpp"
#include "tests/testing/diffusion_decoders.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Tiling TilingOf(const Json& tiles) {
  const auto axis = [&](const char* name) {
    return tiles.contains(name) ? AxisTiling{tiles[name][0], tiles[name][1]} : AxisTiling{};
  };
  return {.frames = axis("frames"), .height = axis("height"), .width = axis("width")};
}

// A rank's draws of the case's noise, the first that it wants drawn ahead.
class Draws {
 public:
  Draws(DecoderRun& run, const DiffusionDecoder& decoder, const TilePlan& plan)
      : run_(run),
        plan_(plan),
        source_(run.seed()),
        scope_(run.rig().exec.host),
        noise_(run.rig().exec, source_, given_, decoder.NoiseDraws(plan)),
        ahead_(VideoDecodeStage::FirstDraw(plan, noise_.draws(), world().rank(), world().size())) {
    const std::vector<std::vector<float>> expected = run.Noise();
    const std::vector<Shape> shapes = decoder.NoiseDraws(plan);
    EXPECT_EQ(shapes.size(), expected.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(shapes[i].elements(), static_cast<int64_t>(expected[i].size())) << "draw " << i;
    }
    if (ahead_.has_value()) noise_.DrawAhead(*ahead_);
  }
  absl::StatusOr<HostNoise> Take(bool wanted) {
    if (wanted && wanted_++ == 0) {
      EXPECT_EQ(ahead_, taken_);
    }
    ++taken_;
    return noise_.Take(run_.rig().exec, wanted);
  }
  // A rank wants its own tiles' draws and, of several tiles with one draw, that one.
  void ExpectAllTaken() const {
    EXPECT_EQ(taken_, noise_.draws());
    const bool of_clip = taken_ == 1 && plan_.tiles() > 1;
    const int64_t in_group = plan_.height.size() * plan_.width.size(), ranks = world().size();
    const int64_t most = of_clip ? 1 : static_cast<int64_t>(plan_.time.size()) * ((in_group + ranks - 1) / ranks);
    EXPECT_LE(wanted_, most);
    EXPECT_TRUE(wanted_ == most || ranks > 1);
    EXPECT_EQ(wanted_ > 0, ahead_.has_value());
  }

 private:
  const Communicator& world() const { return run_.rig().mesh.world(); }

  DecoderRun& run_;
  const TilePlan& plan_;
  const GivenNoise given_;
  NoiseSource source_;
  const ArenaScope scope_;
  DecoderNoise noise_;
  const std::optional<int64_t> ahead_;
  int64_t taken_ = 0, wanted_ = 0;
};

// Decodes a case's latent with its tiling and noise. Returns the frames in 0..1; none on ranks other than 0.
absl::StatusOr<HostTensor> TryDecode(
    DecoderRun& run, Golden& golden, const Tiling& tiling,
    absl::FunctionRef<absl::Status()> work = [] { return absl::OkStatus(); }) {
  const DiffusionDecoder decoder(run.shared_decoder());
  const HostTensor latent = ToChannelsLast(golden.Get("in.latent"));
  const TilePlan plan = decoder.Plan(latent.tensor().shape(), tiling).value();
  HostTensor frames(DType::kF32, {plan.grid.out_frames(), plan.grid.out_height(), plan.grid.out_width(), 3});
  float* to = frames.f32();
  const auto emit = [&](const DecodedFrames& part) {
    to = std::copy_n(part.rgb.data<float>(), part.rgb.elements(), to);
    return absl::OkStatus();
  };
  const auto progress = [](int64_t, int64_t) { return absl::OkStatus(); };
  Draws draws(run, decoder, plan);
  const auto draw = [&](bool wanted) { return draws.Take(wanted); };
  const VideoDecodeStage stage(decoder);
  KINORA_RETURN_IF_ERROR(stage.Run(run.rig().exec, plan, run.rig().Upload(latent.tensor()), draw,
                                   {.emit = emit, .progress = progress, .work = work, .floats = true}));
  draws.ExpectAllTaken();
  return frames;
}

HostTensor Decode(DecoderRun& run, Golden& golden, const Tiling& tiling) {
  return TryDecode(run, golden, tiling).value();
}

// The case's values in 0..1.
HostTensor Wanted(DecoderRun& run, const std::string& name) {
  HostTensor wanted = run.Expected(name);
  for (int64_t i = 0; i < wanted.tensor().elements(); ++i) {
    wanted.f32()[i] = std::clamp((wanted.f32()[i] + 1) / 2, 0.0f, 1.0f);
  }
  return wanted;
}

bool OnSimulatedDevice(const TestedBackend& on) { return std::string_view(on.name) == "cuda"; }

class DiffusionTiles : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, DiffusionTiles, testing::ValuesIn(Backends()), BackendName);

TEST_P(DiffusionTiles, BlendedFramesEqualTheReference) {
  for (const std::string name : {"diffusion_decoder_repeat_tiled", "diffusion_decoder_tiled"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const bool brief = dtype == DType::kBF16 && name == "diffusion_decoder_tiled";
      if (OnSimulatedDevice(GetParam()) && !brief) continue;  // half a minute for each
      Golden golden(name);
      DecoderRun run(golden, GetParam(), {.dtype = dtype});
      const Json parameters = Json::parse(golden.metadata("parameters"));
      const HostTensor frames = Decode(run, golden, TilingOf(parameters["tiles"]));
      EXPECT_TRUE(Near(run.Sampled(frames).tensor(), Wanted(run, "out.frames").tensor(), Tolerance(GetParam(), dtype)))
          << name;
    }
  }
}

TEST_P(DiffusionTiles, AClipThatIsPaddedIsCropped) {
  Golden golden("diffusion_decoder_small");
  DecoderRun run(golden, GetParam(), {});
  EXPECT_TRUE(Near(run.Sampled(Decode(run, golden, {})).tensor(), Wanted(run, "out.frames").tensor(),
                   Tolerance(GetParam(), DType::kF32)));
}

TEST_P(DiffusionTiles, SeveralStepsShareTheClipsNoise) {
  Golden golden("diffusion_decoder_steps");
  const Json parameters = Json::parse(golden.metadata("parameters"));
  for (const auto& [name, velocity] : {std::pair("v", true), {"v_tiled", true}, {"x0", false}}) {
    if (velocity && OnSimulatedDevice(GetParam())) continue;
    const auto change = [velocity = velocity](DiffusionDecoderConfig& config) {
      config.steps = 2;
      config.predicts_velocity = velocity;
    };
    DecoderRun run(golden, GetParam(), {.change = change});
    const bool tiled = std::string(name) == "v_tiled";
    const HostTensor frames = Decode(run, golden, tiled ? TilingOf(parameters["tiles"]) : Tiling{});
    EXPECT_TRUE(Near(run.Sampled(frames).tensor(), Wanted(run, std::string("out.frames.") + name).tensor(),
                     Tolerance(GetParam(), DType::kF32)))
        << name;
  }
}

TEST(DiffusionTiling, ThePlanIsTheReferences) {
  Golden golden("diffusion_decoder_tiled");
  DecoderRun run(golden, Cpu(), {});
  const Json parameters = Json::parse(golden.metadata("parameters"));
  const DiffusionDecoder decoder(run.shared_decoder());
  const TilePlan plan = decoder.Plan({3, 3, 5, 8}, TilingOf(parameters["tiles"])).value();
  const auto expect = [&](const char* axis, const std::vector<AxisTile>& tiles) {
    const Json& wanted = parameters["plan"][axis];
    ASSERT_EQ(tiles.size(), wanted.size()) << axis;
    for (size_t i = 0; i < tiles.size(); ++i) {
      EXPECT_EQ(Json({tiles[i].begin, tiles[i].end}), wanted[i]["cells"]) << axis << i;
      EXPECT_EQ(Json({tiles[i].out_begin, tiles[i].out_end}), wanted[i]["pixels"]) << axis << i;
    }
  };
  expect("frames", plan.time);
  expect("height", plan.height);
  expect("width", plan.width);
  EXPECT_FALSE(plan.complementary);
  const Tiling narrow{.width = {96, 0}};
  EXPECT_THAT(decoder.Plan({3, 3, 5, 8}, narrow).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("width overlap by 0, less than the 32")));
}

Tiling TilesOf(const Golden& golden) { return TilingOf(Json::parse(golden.metadata("parameters"))["tiles"]); }

// Each rank draws the noise of its own tiles alone.
TEST(DiffusionTiling, RanksShareTheTilesWithoutChangingABit) {
  Golden golden("diffusion_decoder_tiled");
  DecoderRun run(golden, Cpu(), {});
  const HostTensor alone = Decode(run, golden, TilesOf(golden));
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.tokens = 4}}) {
    const auto frames =
        RunRanks<std::vector<float>>(shape, [&](const Mesh& mesh) -> absl::StatusOr<std::vector<float>> {
          Golden own("diffusion_decoder_tiled");
          DecoderRun rank(own, Cpu(), {.mesh = &mesh});
          KINORA_ASSIGN_OR_RETURN(HostTensor made, TryDecode(rank, own, TilesOf(own)));
          return std::vector<float>(made.f32(), made.f32() + made.tensor().elements());
        });
    const absl::Span<const float> expected(alone.tensor().data<float>(), alone.tensor().elements());
    EXPECT_TRUE(absl::MakeConstSpan(frames[0]) == expected) << shape.ToString();
  }
}

// A run ends within a tile, between two slabs, whether other ranks are in theirs or not.
TEST(DiffusionTiling, ARunCanEndWithinATile) {
  for (const char* name : {"diffusion_decoder_small", "diffusion_decoder_tiled"}) {
    for (const int allowed : {0, 3, 20}) {
      const auto statuses =
          RunRanks<absl::Status>({.tokens = 2}, [&](const Mesh& mesh) -> absl::StatusOr<absl::Status> {
            Golden golden(name);
            DecoderRun rank(golden, Cpu(), {.mesh = &mesh, .slab_elements = 1});
            int calls = 0;
            const auto work = [&] { return calls++ < allowed ? absl::OkStatus() : absl::CancelledError("enough"); };
            const bool tiled = std::string_view(name) == "diffusion_decoder_tiled";
            const absl::Status ended = TryDecode(rank, golden, tiled ? TilesOf(golden) : Tiling{}, work).status();
            EXPECT_EQ(calls, mesh.world().rank() == 0 ? allowed + 1 : 0) << name;
            return absl::StatusOr<absl::Status>(ended);
          });
      EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough"))) << name;
      EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kCancelled, HasSubstr("rank 0"))) << name;
    }
  }
}

// One tile is one rank's; the others draw nothing.
TEST(DiffusionTiling, RanksWithoutATileDrawNoNoise) {
  const auto ends = RunRanks<bool>({.tokens = 2}, [](const Mesh& mesh) -> absl::StatusOr<bool> {
    Golden golden("diffusion_decoder_small");
    DecoderRun rank(golden, Cpu(), {.mesh = &mesh});
    KINORA_ASSIGN_OR_RETURN(const HostTensor frames, TryDecode(rank, golden, {}));
    return true;
  });
  EXPECT_THAT(ends, testing::Each(true));
}

// A decoder whose windows reach less far than a tile's step, and a clip that is far too large for one tile.
TEST(DiffusionTiling, ADefaultIsFoundForAnyReach) {
  VideoDecoderConfig config = ReleasedModelConfig("ltx-2.5-22b-diffusion-decoder")->video_decoder;
  for (const int64_t window : {1, 3, 7}) {
    config.diffusion->denoiser.window = {window, window, window};
    config.diffusion->stages.back().window = {1, 1, 1};
    const LatentGrid clip{.frames = 16, .height = 74, .width = 128};
    const DiffusionTileGrid grid = DiffusionTileGrid::Of(config, clip, {61, 4 * 74, 4 * 128});
    const TilePlan plan = PlanDiffusionTiles(grid, ChooseTiling(grid)).value();
    EXPECT_GT(plan.tiles(), 1) << window;
  }
}

// The released decoder's default tiles.
TEST(DiffusionTiling, TheDefaultFollowsFromTheShape) {
  const VideoDecoderConfig config = ReleasedModelConfig("ltx-2.5-22b-diffusion-decoder")->video_decoder;
  const auto plan_of = [&](int64_t width, int64_t height, int64_t frames) {
    const LatentGrid clip{.frames = (frames - 1) / 8 + 1, .height = height / 32, .width = width / 32};
    const int64_t cell_frames = 4 * std::max<int64_t>(clip.frames, 3) - 3;
    const DiffusionTileGrid grid = DiffusionTileGrid::Of(
        config, clip, {cell_frames, 4 * std::max<int64_t>(clip.height, 7), 4 * std::max<int64_t>(clip.width, 7)});
    EXPECT_EQ(grid.overlap[0], 40);
    EXPECT_EQ(grid.overlap[1], 160);
    EXPECT_EQ(grid.least[2], 6);
    const TilePlan plan = PlanDiffusionTiles(grid, ChooseTiling(grid)).value();
    EXPECT_TRUE(plan.complementary) << plan.ToString();
    for (const AxisTile& time : plan.time) {
      for (const AxisTile& rows : plan.height) {
        for (const AxisTile& columns : plan.width) {
          EXPECT_LE((time.out_end - time.out_begin) * (rows.out_end - rows.out_begin) / 4 *
                        (columns.out_end - columns.out_begin) / 4,
                    kMostTilePositions);
        }
      }
    }
    return plan.ToString();
  };
  EXPECT_EQ(plan_of(64, 32, 9), "untiled");
  EXPECT_EQ(plan_of(768, 512, 121), "untiled");
  EXPECT_EQ(plan_of(1280, 768, 121), "untiled");
  EXPECT_EQ(plan_of(1536, 1024, 121), "frames=121,height=1024,width=864/160");
  EXPECT_EQ(plan_of(1920, 1088, 121), "frames=121,height=1088,width=1056/160");
  EXPECT_EQ(plan_of(1088, 1920, 121), "frames=121,height=1056/160,width=1088");
  EXPECT_EQ(plan_of(1920, 1088, 241), "frames=241,height=1088,width=512/160");
  EXPECT_EQ(plan_of(768, 512, 2401), "frames=384/40,height=512,width=768");
}

}  // namespace
}  // namespace kinora
