#include "engine/pipeline/video_encode_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/config/config_reader.h"
#include "engine/parallel/dry_run.h"
#include "tests/testing/model_rig.h"
#include "tests/testing/ranks.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

constexpr Tiling kSmall{.frames = {24, 16}, .height = {96, 64}, .width = {96, 64}};

TEST(EncoderTiles, AreMaskedByCellsAsTheReferenceMasksThem) {
  const LatentGrid grid{.frames = 6, .height = 2, .width = 5};
  KINORA_ASSERT_OK_AND_ASSIGN(const TilePlan plan, PlanEncoderTiles(grid, kSmall));
  ASSERT_EQ(plan.width.size(), 3u);
  EXPECT_THAT(plan.width[0].mask, Pointwise(FloatNear(1e-6f), {1.0f, 2 / 3.0f, 1 / 3.0f}));
  EXPECT_THAT(plan.width[1].mask, Pointwise(FloatNear(1e-6f), {1 / 3.0f, 4 / 9.0f, 1 / 3.0f}));
  EXPECT_THAT(plan.width[2].mask, Pointwise(FloatNear(1e-6f), {1 / 3.0f, 2 / 3.0f, 1.0f}));
  EXPECT_EQ(plan.width[1].out_begin, 32);  // the input it reads
  EXPECT_EQ(plan.width[1].out_end, 128);
  EXPECT_EQ(plan.height.size(), 1u);
  ASSERT_EQ(plan.time.size(), 4u);
  EXPECT_THAT(plan.time[0].mask, Pointwise(FloatNear(1e-6f), {1.0f, 2 / 3.0f, 1 / 3.0f}));
  EXPECT_EQ(plan.time[1].begin, 0);  // one cell earlier
  EXPECT_THAT(plan.time[1].mask, Pointwise(FloatNear(1e-6f), {0.0f, 1 / 3.0f, 4 / 9.0f, 1 / 3.0f}));
  EXPECT_FALSE(plan.complementary);
}

TEST(EncoderTiles, OverlapsThatAreTooShortAreRefusedByTheAxis) {
  const LatentGrid grid{.frames = 6, .height = 5, .width = 5};
  Tiling tiling = kSmall;
  tiling.height.overlap = 32;
  EXPECT_THAT(PlanEncoderTiles(grid, tiling).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("height overlap by 32, less than the 64")));
  tiling = kSmall;
  tiling.frames.overlap = 8;
  EXPECT_THAT(PlanEncoderTiles(grid, tiling).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("frames overlap by 8, less than the 16")));
  tiling.frames = {};  // a single tile needs no overlap
  EXPECT_THAT(PlanEncoderTiles(grid, tiling).status(), IsOk());
}

struct LoadedEncoder : ModelRig {
  // `checkpoint` is the golden's, shared by all ranks.
  LoadedEncoder(const TestedBackend& on, const Golden& golden, std::string checkpoint, const Mesh* mesh = nullptr)
      : ModelRig(on, DType::kF32, /*taps=*/nullptr, mesh) {
    WeightLoader weights = Open({.paths = {std::move(checkpoint)}});
    const ModelConfig config =
        ParseLightricksConfig(golden.metadata("config"), golden.metadata("model_version")).value();
    encoder.emplace(VideoEncoder::Load(weights.Under("vae"), config.video_encoder).value());
    EXPECT_THAT(weights.Finish(), IsOk());
  }
  std::vector<float> Encode(const Tensor& pixels) {
    const Tensor latent = Output(DType::kF32, encoder->OutputShape(pixels.shape()));
    encoder->Forward(exec, Upload(pixels), latent);
    return Floats(latent);
  }
  std::optional<VideoEncoder> encoder;
};

HostTensor Waves(const Shape& shape) {
  HostTensor pixels(DType::kF32, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t column = i / 3 % shape[2], row = i / 3 / shape[2] % shape[1], frame = i / 3 / shape[2] / shape[1];
    const auto x = static_cast<float>(column), y = static_cast<float>(row), t = static_cast<float>(frame);
    pixels.f32()[i] = std::sin(0.11f * x + 0.2f * t + static_cast<float>(i % 3)) * std::cos(0.07f * y);
  }
  return pixels;
}

HostTensor Part(const Tensor& pixels, const AxisTile& t, const AxisTile& h, const AxisTile& w) {
  HostTensor part(DType::kF32,
                  {t.out_end - t.out_begin, h.out_end - h.out_begin, w.out_end - w.out_begin, pixels.dim(3)});
  float* to = part.f32();
  for (int64_t f = t.out_begin; f < t.out_end; ++f) {
    for (int64_t y = h.out_begin; y < h.out_end; ++y) {
      const float* from =
          pixels.data<float>() + ((f * pixels.dim(1) + y) * pixels.dim(2) + w.out_begin) * pixels.dim(3);
      to = std::copy_n(from, (w.out_end - w.out_begin) * pixels.dim(3), to);
    }
  }
  return part;
}

// Adapts a tensor to the callback that VideoEncodeStage reads pixels from.
VideoEncodeStage::Pixels PartsOf(const Tensor& pixels) {
  return [pixels](int64_t frame, const PixelRegion& part, float* out) {
    for (int64_t y = 0; y < part.height; ++y) {
      const int64_t row = frame * pixels.dim(1) + part.top + y;
      const float* from = pixels.data<float>() + (row * pixels.dim(2) + part.left) * pixels.dim(3);
      out = std::copy_n(from, part.width * pixels.dim(3), out);
    }
  };
}

class EncodeStage : public OpTest {};
INSTANTIATE_TEST_SUITE_P(On, EncodeStage, testing::ValuesIn(Backends()), BackendName);

TEST_P(EncodeStage, TilesAreBlendedByTheirMasks) {
  Golden golden("video_encoder_2_3");
  LoadedEncoder rig(GetParam(), golden, golden.WriteCheckpoint());
  const VideoEncodeStage stage(*rig.encoder);
  const HostTensor pixels = Waves({41, 64, 160, 3});
  KINORA_ASSERT_OK_AND_ASSIGN(const TilePlan plan, stage.Plan(pixels.tensor().shape(), kSmall));
  ASSERT_EQ(plan.tiles(), 12);
  const Shape shape = rig.encoder->OutputShape(pixels.tensor().shape());
  HostTensor expected(DType::kF32, shape);
  std::vector<double> sums(shape.elements()), weights(shape.elements());
  for (const AxisTile& t : plan.time) {
    for (const AxisTile& w : plan.width) {
      const std::vector<float> tile = rig.Encode(Part(pixels.tensor(), t, plan.height[0], w).tensor());
      const int64_t frames = t.end - t.begin, columns = w.end - w.begin;
      for (int64_t i = 0; i < static_cast<int64_t>(tile.size()); ++i) {
        const int64_t c = i % shape[3], x = i / shape[3] % columns, y = i / shape[3] / columns % shape[1],
                      f = i / shape[3] / columns / shape[1];
        ASSERT_LT(f, frames);
        const int64_t at = (((t.begin + f) * shape[1] + y) * shape[2] + w.begin + x) * shape[3] + c;
        const double weight = static_cast<double>(t.mask[f]) * w.mask[x];
        sums[at] += weight * tile[i];
        weights[at] += weight;
      }
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) expected.f32()[i] = static_cast<float>(sums[i] / weights[i]);
  const Tensor latent = rig.Output(DType::kF32, shape);
  const int64_t before = rig.arena.peak();
  EXPECT_THAT(stage.Run(rig.exec, {{&plan, PartsOf(pixels.tensor()), latent}}), IsOk());
  EXPECT_TRUE(Near(rig.Floats(latent), expected.tensor(), 2e-6));
  const int64_t dry = DryRunArenaBytes(DType::kF32, [&](Exec& exec) {
    const Tensor none(DType::kF32, shape, nullptr);
    EXPECT_THAT(stage.Run(exec, {{.plan = &plan, .pixels = nullptr, .latent = none}}), IsOk());
  });
  EXPECT_EQ(std::max(before, dry), rig.arena.peak());
}

TEST_P(EncodeStage, OneTileIsTheEncodersOwn) {
  Golden golden("video_encoder_2_3");
  LoadedEncoder rig(GetParam(), golden, golden.WriteCheckpoint());
  const VideoEncodeStage stage(*rig.encoder);
  const HostTensor pixels = Waves({9, 64, 96, 3});
  KINORA_ASSERT_OK_AND_ASSIGN(const TilePlan plan, stage.Plan(pixels.tensor().shape()));
  ASSERT_EQ(plan.tiles(), 1);
  const Tensor latent = rig.Output(DType::kF32, rig.encoder->OutputShape(pixels.tensor().shape()));
  EXPECT_THAT(stage.Run(rig.exec, {{&plan, PartsOf(pixels.tensor()), latent}}), IsOk());
  EXPECT_EQ(rig.Floats(latent), rig.Encode(pixels.tensor()));
  EXPECT_THAT(stage.Plan({8, 64, 96, 3}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_frames")));
}

// The golden's pixels; its README defines the pattern.
HostTensor Pattern(const Shape& shape) {
  HostTensor pixels(DType::kF32, shape);
  float* to = pixels.f32();
  for (int64_t f = 0; f < shape[0]; ++f) {
    for (int64_t y = 0; y < shape[1]; ++y) {
      for (int64_t x = 0; x < shape[2]; ++x) {
        for (int64_t c = 0; c < 3; ++c) {
          const int64_t bits = (7 * x + 13 * y + 29 * f + 85 * c + x * y / 16 + 3 * x * f / 8) % 256;
          *to++ = static_cast<float>(bits) / 127.5f - 1.0f;
        }
      }
    }
  }
  return pixels;
}

TEST_P(EncodeStage, TilesEqualTheReferencesTiledEncode) {
  Golden golden("video_encoder_2_3_tiled");
  LoadedEncoder rig(GetParam(), golden, golden.WriteCheckpoint());
  const VideoEncodeStage stage(*rig.encoder);
  const HostTensor pixels = Pattern({33, 128, 160, 3});
  KINORA_ASSERT_OK_AND_ASSIGN(const TilePlan plan, stage.Plan(pixels.tensor().shape(), kSmall));
  ASSERT_EQ(plan.tiles(), 18);
  const Tensor latent = rig.Output(DType::kF32, rig.encoder->OutputShape(pixels.tensor().shape()));
  EXPECT_THAT(stage.Run(rig.exec, {{&plan, PartsOf(pixels.tensor()), latent}}), IsOk());
  EXPECT_TRUE(Near(rig.Floats(latent), ToChannelsLast(golden.Get("out.latent")).tensor(), rig.tolerance));
}

struct Encoded {
  std::vector<float> clip, picture;
  std::vector<int64_t> done;  // progress reported to rank 0
};

// Encodes a clip of twelve tiles and a picture of one. Only rank 0 has their pixels.
absl::StatusOr<Encoded> EncodeOnRank(const Mesh& mesh, const Golden& golden, const std::string& checkpoint,
                                     int64_t stop_at = -1) {
  LoadedEncoder rig(Cpu(), golden, checkpoint, &mesh);
  const VideoEncodeStage stage(*rig.encoder);
  const HostTensor clip = Waves({41, 64, 160, 3}), picture = Waves({1, 64, 96, 3});
  KINORA_ASSIGN_OR_RETURN(const TilePlan tiled, stage.Plan(clip.tensor().shape(), kSmall));
  KINORA_ASSIGN_OR_RETURN(const TilePlan whole, stage.Plan(picture.tensor().shape()));
  const auto pixels = [&](const Tensor& of) { return mesh.world().rank() == 0 ? PartsOf(of) : nullptr; };
  const Tensor first = rig.Output(DType::kF32, rig.encoder->OutputShape(clip.tensor().shape())),
               second = rig.Output(DType::kF32, rig.encoder->OutputShape(picture.tensor().shape()));
  Encoded encoded;
  const auto on_round = [&](int64_t done) {
    encoded.done.push_back(done);
    return done == stop_at ? absl::CancelledError("enough") : absl::OkStatus();
  };
  KINORA_RETURN_IF_ERROR(stage.Run(
      rig.exec, {{&tiled, pixels(clip.tensor()), first}, {&whole, pixels(picture.tensor()), second}}, on_round));
  encoded.clip = rig.Floats(first);
  encoded.picture = rig.Floats(second);
  return encoded;
}

TEST(VideoEncodeStage, TilesSharedByRanksAreTheSameToTheBitOnEachOfThem) {
  Golden golden("video_encoder_2_3");
  const std::string checkpoint = golden.WriteCheckpoint();
  const auto encode = [&](const Mesh& mesh) { return EncodeOnRank(mesh, golden, checkpoint); };
  const Encoded one = RunRanks<Encoded>({}, encode)[0];
  EXPECT_EQ(one.done.size(), 13u);
  for (const int ranks : {2, 4}) {
    const std::vector<Encoded> all = RunRanks<Encoded>({.tokens = ranks}, encode);
    for (const Encoded& encoded : all) {
      EXPECT_TRUE(encoded.clip == one.clip) << ranks;
      EXPECT_TRUE(encoded.picture == one.picture) << ranks;
    }
    EXPECT_EQ(all[0].done.size(), (13u + ranks - 1) / ranks);
    EXPECT_EQ(all[0].done.back(), 13);
    EXPECT_TRUE(all[1].done.empty());
  }
}

TEST(VideoEncodeStage, AllRanksLeaveWhenRankZeroCancels) {
  Golden golden("video_encoder_2_3");
  const std::string checkpoint = golden.WriteCheckpoint();
  const auto status = RunRanks<absl::Status>({.tokens = 2}, [&](const Mesh& mesh) -> absl::StatusOr<absl::Status> {
    return absl::StatusOr<absl::Status>(EncodeOnRank(mesh, golden, checkpoint, /*stop_at=*/4).status());
  });
  EXPECT_THAT(status[0], StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  EXPECT_THAT(status[1], StatusIs(absl::StatusCode::kCancelled, HasSubstr("rank 0")));
}

}  // namespace
}  // namespace kinora
