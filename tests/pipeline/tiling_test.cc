#include "engine/pipeline/tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

// Computed with Lightricks' ltx_core 1.2.0. An axis is a list of {cells, outputs, Σ mask, Σ i·mask[i]}.
struct ReferenceTile {
  int64_t begin, end, out_begin, out_end;
  double sum, moment;
};
struct ReferencePlan {
  LatentGrid grid;
  bool complementary;
  std::vector<ReferenceTile> time, height, width;
};

void ExpectAxis(const std::vector<AxisTile>& tiles, const std::vector<ReferenceTile>& expected) {
  ASSERT_EQ(tiles.size(), expected.size());
  for (size_t i = 0; i < tiles.size(); ++i) {
    const AxisTile& tile = tiles[i];
    EXPECT_EQ(tile.begin, expected[i].begin) << i;
    EXPECT_EQ(tile.end, expected[i].end) << i;
    EXPECT_EQ(tile.out_begin, expected[i].out_begin) << i;
    EXPECT_EQ(tile.out_end, expected[i].out_end) << i;
    ASSERT_EQ(static_cast<int64_t>(tile.mask.size()), tile.out_end - tile.out_begin) << i;
    double sum = 0, moment = 0;
    for (size_t j = 0; j < tile.mask.size(); ++j) {
      sum += tile.mask[j];
      moment += static_cast<double>(j) * tile.mask[j];
    }
    EXPECT_NEAR(sum, expected[i].sum, 1e-4) << i;
    EXPECT_NEAR(moment, expected[i].moment, 1e-7 * expected[i].moment + 1e-4) << i;
  }
}

class Plans : public testing::TestWithParam<ReferencePlan> {};

TEST_P(Plans, AreThoseOfTheReference) {
  const ReferencePlan& expected = GetParam();
  const absl::StatusOr<TilePlan> plan = PlanTiles(expected.grid, Tiling::For(expected.grid));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectAxis(plan->time, expected.time);
  ExpectAxis(plan->height, expected.height);
  ExpectAxis(plan->width, expected.width);
  EXPECT_EQ(plan->complementary, expected.complementary);
}

const std::vector<ReferenceTile> kFrames121 = {{0, 10, 0, 73, 61, 1856}, {6, 16, 48, 121, 60, 2524}};
INSTANTIATE_TEST_SUITE_P(
    Shapes, Plans,
    testing::Values(
        ReferencePlan{{16, 16, 24}, true, kFrames121, {{0, 16, 0, 512, 512, 130816}}, {{0, 24, 0, 768, 768, 294528}}},
        ReferencePlan{{16, 24, 40},
                      true,
                      kFrames121,
                      {{0, 14, 0, 448, 416, 86496}, {12, 24, 384, 768, 352, 72864}},
                      {{0, 24, 0, 768, 736, 270656}, {22, 40, 704, 1280, 544, 164928}}},
        // Five rows in tiles of three overlap by two, so the ramps of the middle tile meet and the sums are not 1.
        ReferencePlan{
            {33, 5, 64},
            false,
            {{0, 10, 0, 73, 61, 1856},
             {6, 17, 48, 129, 56, 2268},
             {13, 24, 104, 185, 56, 2268},
             {20, 31, 160, 241, 56, 2268},
             {27, 33, 216, 257, 28, 716}},
            {{0, 3, 0, 96, 64, 2192.0000372}, {1, 4, 32, 128, 33.4163324, 1587.2757911}, {2, 5, 64, 160, 64, 3888}},
            {{0, 24, 0, 768, 736, 270656}, {22, 46, 704, 1472, 704, 269984}, {44, 64, 1408, 2048, 608, 203808}}},
        ReferencePlan{{11, 13, 48},
                      true,
                      {{0, 10, 0, 73, 61, 1856}, {6, 11, 48, 81, 20, 424}},
                      {{0, 6, 0, 192, 160, 12896}, {4, 10, 128, 320, 128, 12224}, {8, 13, 256, 416, 128, 12048}},
                      {{0, 24, 0, 768, 736, 270656}, {22, 46, 704, 1472, 704, 269984}, {44, 48, 1408, 1536, 96, 7456}}},
        ReferencePlan{{1, 2, 2}, true, {{0, 1, 0, 1, 1, 0}}, {{0, 2, 0, 64, 64, 2016}}, {{0, 2, 0, 64, 64, 2016}}}));

TEST(Tiling, TilesCoverEveryOutputAndFramesGetReadyInOrder) {
  for (int64_t frames = 1; frames <= 60; ++frames) {
    const LatentGrid grid{.frames = frames, .height = 7, .width = 30};
    const TilePlan plan = *PlanTiles(grid, Tiling::For(grid));
    EXPECT_TRUE(plan.complementary) << frames;
    int64_t ready = 0;
    for (size_t t = 0; t < plan.time.size(); ++t) {
      EXPECT_EQ(plan.time[t].out_begin, ready) << frames;
      ready = plan.ReadyUntil(t);
    }
    EXPECT_EQ(ready, grid.out_frames());
    EXPECT_EQ(plan.width.back().out_end, grid.out_width());
  }
}

TEST(Tiling, SizesOffTheGridAreRefusedByTheNameOfTheAxis) {
  const LatentGrid grid{.frames = 4, .height = 4, .width = 4};
  const auto message = [&](const Tiling& tiling) { return std::string(PlanTiles(grid, tiling).status().message()); };
  EXPECT_THAT(message({.frames = {20, 8}}), testing::HasSubstr("frames 20"));
  EXPECT_THAT(message({.height = {96, 16}}), testing::HasSubstr("height 96"));
  EXPECT_THAT(message({.width = {32, 0}}), testing::HasSubstr("width 32"));
  EXPECT_THAT(message({.width = {64, 64}}), testing::HasSubstr("overlap"));
  EXPECT_THAT(message({.width = {64, -32}}), testing::HasSubstr("overlap"));
  EXPECT_THAT(message({.width = {0, 32}}), testing::HasSubstr("overlap"));
  EXPECT_TRUE(PlanTiles(grid, {}).ok());
}

TEST(Tiling, APlanSaysItsTilesAndCountsTheCellsOfOverlapsInEach) {
  const LatentGrid grid{.frames = 16, .height = 16, .width = 30};
  const absl::StatusOr<TilePlan> plan = PlanTiles(grid, Tiling::For(grid));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->ToString(), "frames=80/24,height=416/64,width=768/64");
  int64_t cells = 0;
  for (const AxisTile& t : plan->time) {
    for (const AxisTile& h : plan->height) {
      for (const AxisTile& w : plan->width) cells += (t.end - t.begin) * (h.end - h.begin) * (w.end - w.begin);
    }
  }
  EXPECT_EQ(plan->tokens(), cells);
  EXPECT_GT(cells, grid.tokens());
  EXPECT_EQ(PlanTiles(grid, {.width = {768, 64}})->ToString(), "frames=121,height=512,width=768/64");
  EXPECT_EQ(PlanTiles({.frames = 4, .height = 4, .width = 6}, {})->ToString(), "untiled");
}

}  // namespace
}  // namespace kinora
