// Blending of tiles into frames on every backend, bit for bit as the plan defines it, whether or not the device runs a
// group ahead of the consumer.
#include "engine/pipeline/frame_blender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/testing/model_rig.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

using testing::HasSubstr;

constexpr int64_t kColours = 3;

// A product that the compiler cannot fuse with an addition.
float Product(float a, float b) {
  volatile float rounded = a * b;
  return rounded;
}

std::vector<float> PixelsOf(int64_t count, int salt) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = 1.2f * std::sin(0.19f * static_cast<float>(i % 9973 * 3 + 71 * salt));
  return values;
}

struct TileOfPlan {
  const AxisTile *time, *rows, *columns;
  Shape shape;
  std::vector<float> pixels;
};

std::vector<TileOfPlan> TilesOf(const TilePlan& plan, size_t t) {
  std::vector<TileOfPlan> tiles;
  const auto extent = [](const AxisTile& tile) { return tile.out_end - tile.out_begin; };
  for (const AxisTile& rows : plan.height) {
    for (const AxisTile& columns : plan.width) {
      const Shape shape{extent(plan.time[t]), extent(rows), extent(columns), kColours};
      const int salt = static_cast<int>(10 * t + tiles.size());
      tiles.push_back({&plan.time[t], &rows, &columns, shape, PixelsOf(shape.elements(), salt)});
    }
  }
  return tiles;
}

// The whole clip in 0..1, computed on the host.
std::vector<float> Definition(const TilePlan& plan) {
  const int64_t height = plan.grid.out_height(), line = plan.grid.out_width() * kColours;
  std::vector<float> clip(plan.time.back().out_end * height * line, 0.0f);
  for (size_t t = 0; t < plan.time.size(); ++t) {
    for (const TileOfPlan& tile : TilesOf(plan, t)) {
      const int64_t tile_line = tile.shape[2] * kColours;
      for (int64_t i = 0; i < tile.shape.elements(); ++i) {
        const int64_t x = i % tile_line, y = i / tile_line % tile.shape[1], f = i / tile_line / tile.shape[1];
        const float in_time = Product(tile.pixels[i], tile.time->mask[f]);
        const float weighted = Product(Product(in_time, tile.rows->mask[y]), tile.columns->mask[x / kColours]);
        clip[((tile.time->out_begin + f) * height + tile.rows->out_begin + y) * line +
             tile.columns->out_begin * kColours + x] += weighted;
      }
    }
  }
  for (size_t i = 0; i < clip.size(); ++i) {
    const int64_t x = i % line / kColours, y = i / line % height, f = i / line / height;
    const float weight = Product(Product(plan.time_weight[f], plan.height_weight[y]), plan.width_weight[x]);
    if (!plan.complementary) clip[i] /= std::max(weight, 1e-8f);
    clip[i] = std::clamp((clip[i] + 1) * 0.5f, 0.0f, 1.0f);
  }
  return clip;
}

class FrameBlenderTest : public OpTest {
 protected:
  struct Clip {
    absl::Status status;
    std::vector<uint8_t> rgb8;
    std::vector<float> rgb;
  };
  // `change` may modify the pixels of each group's first tile before they are added.
  Clip Blend(
      const TilePlan& plan, FrameBlender::Options options,
      absl::FunctionRef<void(size_t t, std::vector<float>& pixels)> change = [](auto&&...) {});
};
INSTANTIATE_TEST_SUITE_P(On, FrameBlenderTest, testing::ValuesIn(Backends()), BackendName);

FrameBlenderTest::Clip FrameBlenderTest::Blend(const TilePlan& plan, FrameBlender::Options options,
                                               absl::FunctionRef<void(size_t t, std::vector<float>& pixels)> change) {
  ModelRig rig(GetParam(), DType::kF32);
  Stream& stream = rig.exec.ops.stream();
  ArenaScope device(rig.exec.arena), host(rig.exec.host);
  FrameBlender blender(rig.exec, plan, options, device, host);
  Clip clip;
  const auto emit = [&](const DecodedFrames& frames) {
    const auto* bytes = frames.rgb8.data<uint8_t>();
    EXPECT_EQ(frames.first * frames.rgb8.elements() / frames.rgb8.dim(0), static_cast<int64_t>(clip.rgb8.size()));
    clip.rgb8.insert(clip.rgb8.end(), bytes, bytes + frames.rgb8.elements());
    if (!frames.rgb.defined()) return absl::OkStatus();
    clip.rgb.insert(clip.rgb.end(), frames.rgb.data<float>(), frames.rgb.data<float>() + frames.rgb.elements());
    return absl::OkStatus();
  };
  const auto take = [&](size_t t, int64_t mark) {
    if (clip.status.ok()) clip.status = stream.WaitFor(mark);
    if (clip.status.ok()) clip.status = blender.EmitGroup(t, emit);
  };
  int64_t mark = 0;
  for (size_t t = 0; t < plan.time.size(); ++t) {
    blender.Begin(t);
    std::vector<TileOfPlan> tiles = TilesOf(plan, t);
    change(t, tiles[0].pixels);
    for (const TileOfPlan& tile : tiles) {
      const Tensor pixels = rig.Upload(tile.pixels, tile.shape);
      ArenaScope scope(rig.exec.arena);
      TileBlend blend{blender.UploadWeights(tile.time->mask, tile.rows->mask, tile.columns->mask, scope),
                      tile.rows->out_begin, tile.columns->out_begin};
      const Tensor masks = blend.weights.frames;
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 3}, {3, pixels.dim(0)}}) {  // as ranks send
        blend.weights.frames = masks.Rows(begin, end);
        blender.Add(pixels.Rows(begin, end), blend, tile.time->out_begin + begin);
      }
    }
    blender.Finish(t);
    const int64_t previous = std::exchange(mark, stream.Mark());
    if (!options.ahead) take(t, mark);
    if (options.ahead && t > 0) take(t - 1, previous);
  }
  if (options.ahead) take(plan.time.size() - 1, mark);
  EXPECT_THAT(stream.Synchronize(), IsOk());
  return clip;
}

TilePlan Plan(const LatentGrid& grid, const Tiling& tiling) { return *PlanTiles(grid, tiling); }

TEST_P(FrameBlenderTest, FramesAreWhatThePlanSaysAheadOrNot) {
  // Four groups of 9 and 17 frames in a ring of 17 frames. Frames and parts are split where the ring wraps.
  const TilePlan ramps =
      Plan({.frames = 5, .height = 2, .width = 3}, {.frames = {16, 8}, .height = {64, 0}, .width = {64, 32}});
  const TilePlan divided = Plan({.frames = 3, .height = 5, .width = 2}, {.frames = {16, 8}, .height = {96, 64}});
  ASSERT_GE(ramps.time.size(), 4u);
  ASSERT_TRUE(ramps.complementary);
  ASSERT_FALSE(divided.complementary);
  for (const TilePlan& plan : {ramps, divided}) {
    const std::vector<float> expected = Definition(plan);
    const Clip ahead = Blend(plan, {.ahead = true, .groups = 2}), bytes = Blend(plan, {}),
               watched = Blend(plan, {.floats = true});
    EXPECT_TRUE(watched.rgb == expected) << plan.ToString();
    ASSERT_EQ(bytes.rgb8.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(bytes.rgb8[i], static_cast<int>(expected[i] * 255)) << i;
    EXPECT_TRUE(watched.rgb8 == bytes.rgb8) << plan.ToString();
    EXPECT_TRUE(ahead.rgb8 == bytes.rgb8) << plan.ToString();
    EXPECT_TRUE(ahead.rgb.empty() && bytes.rgb.empty());
  }
}

TEST_P(FrameBlenderTest, ANanEndsAtItsGroupAndNamesTheFrame) {
  const TilePlan plan = Plan({.frames = 7, .height = 1, .width = 1}, {.frames = {24, 8}});
  ASSERT_EQ(plan.time.size(), 3u);
  const auto spoil = [&](size_t t, std::vector<float>& pixels) {  // the second frame that only group 1 contains
    if (t == 1) pixels[(10 - plan.time[1].out_begin) * 32 * 32 * kColours] = std::numeric_limits<float>::quiet_NaN();
  };
  for (const FrameBlender::Options& options : {FrameBlender::Options{.ahead = true, .groups = 2}, {}}) {
    const Clip clip = Blend(plan, options, spoil);
    EXPECT_THAT(clip.status, StatusIs(absl::StatusCode::kInternal, HasSubstr("frame 10 holds pixels")));
    EXPECT_EQ(static_cast<int64_t>(clip.rgb8.size()), plan.ReadyUntil(0) * 32 * 32 * kColours) << "all of group 0";
  }
}

}  // namespace
}  // namespace kinora
