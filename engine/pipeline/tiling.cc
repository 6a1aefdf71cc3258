#include "engine/pipeline/tiling.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/axis_tiles.h"

namespace kinora {
namespace {

std::vector<AxisTile> SplitSpace(int64_t length, int64_t size, int64_t overlap, int64_t factor) {
  std::vector<AxisTile> tiles;
  for (const CellInterval& i : SplitCells(length, size, overlap)) {
    tiles.push_back({i.begin, i.end, i.begin * factor, i.end * factor,
                     Trapezoid((i.end - i.begin) * factor, i.left_ramp * factor, i.right_ramp * factor, false)});
  }
  return tiles;
}

std::vector<AxisTile> SplitTime(int64_t length, int64_t size, int64_t overlap, int64_t factor) {
  std::vector<AxisTile> tiles;
  for (CellInterval i : SplitCells(length, size, overlap)) {
    if (i.begin > 0) {
      --i.begin;
      ++i.left_ramp;
    }
    const int64_t out_begin = i.begin * factor, out_end = 1 + (i.end - 1) * factor;
    const int64_t left = i.left_ramp == 0 ? 0 : 1 + (i.left_ramp - 1) * factor;
    tiles.push_back(
        {i.begin, i.end, out_begin, out_end, Trapezoid(out_end - out_begin, left, i.right_ramp * factor, true)});
  }
  return tiles;
}

// Replaces the masks of frames or pixels by masks of latent cells. A ramp is as long as the overlap with the neighbour.
void MaskCells(bool left_from_zero, std::vector<AxisTile>* tiles) {
  for (size_t i = 0; i < tiles->size(); ++i) {
    AxisTile& tile = (*tiles)[i];
    const int64_t left = i == 0 ? 0 : (*tiles)[i - 1].end - tile.begin;
    const int64_t right = i + 1 == tiles->size() ? 0 : tile.end - (*tiles)[i + 1].begin;
    // In time, the next tile begins one cell before this tile's ramp, which is as long as the requested overlap.
    const int64_t right_ramp = right > 0 && left_from_zero ? right - 1 : right;
    tile.mask = Trapezoid(tile.end - tile.begin, left, right_ramp, left_from_zero);
  }
}

}  // namespace

Tiling Tiling::For(const LatentGrid& grid) {
  constexpr int64_t kLongSide = 768, kOverlap = 64;
  const int64_t factor = grid.space_factor;
  // Rounds up to whole cells, for decoders whose factor is not 32.
  const auto cells = [](int64_t extent, int64_t factor) { return (extent + factor - 1) / factor; };
  const int64_t size = cells(kLongSide, factor), overlap = cells(kOverlap, factor);
  const auto side = [&](int64_t length) {
    const double exact = static_cast<double>(size * length) / static_cast<double>(std::max(grid.height, grid.width));
    const int64_t smallest = std::max<int64_t>(2, overlap + 1);
    const int64_t rounded = static_cast<int64_t>(std::nearbyint(exact));  // ties to even, as Python rounds
    return AxisTiling{.size = std::max(smallest, rounded) * factor, .overlap = overlap * factor};
  };
  const AxisTiling frames{.size = cells(80, grid.time_factor) * grid.time_factor,
                          .overlap = cells(24, grid.time_factor) * grid.time_factor};
  return {.frames = frames, .height = side(grid.height), .width = side(grid.width)};
}

int64_t TilePlan::tokens() const {
  const auto cells = [](const std::vector<AxisTile>& tiles) {
    int64_t sum = 0;
    for (const AxisTile& tile : tiles) sum += tile.end - tile.begin;
    return sum;
  };
  return cells(time) * cells(height) * cells(width);
}

std::string TilePlan::ToString() const {
  if (tiles() == 1) return "untiled";
  const auto axis = [](size_t tiles, const AxisTiling& tiling, int64_t extent) {
    return tiles == 1 ? absl::StrCat(extent) : absl::StrCat(tiling.size, "/", tiling.overlap);
  };
  return absl::StrCat("frames=", axis(time.size(), tiling.frames, grid.out_frames()),
                      ",height=", axis(height.size(), tiling.height, grid.out_height()),
                      ",width=", axis(width.size(), tiling.width, grid.out_width()));
}

absl::StatusOr<TilePlan> PlanTiles(const LatentGrid& grid, const Tiling& tiling) {
  KINORA_CHECK(grid.frames > 0 && grid.height > 0 && grid.width > 0)
      << grid.frames << " by " << grid.height << " by " << grid.width;
  KINORA_ASSIGN_OR_RETURN(const AxisTiling frames, InCells("frames", tiling.frames, grid.frames, grid.time_factor));
  KINORA_ASSIGN_OR_RETURN(const AxisTiling height, InCells("height", tiling.height, grid.height, grid.space_factor));
  KINORA_ASSIGN_OR_RETURN(const AxisTiling width, InCells("width", tiling.width, grid.width, grid.space_factor));
  TilePlan plan{.grid = grid,
                .tiling = tiling,
                .time = SplitTime(grid.frames, frames.size, frames.overlap, grid.time_factor),
                .height = SplitSpace(grid.height, height.size, height.overlap, grid.space_factor),
                .width = SplitSpace(grid.width, width.size, width.overlap, grid.space_factor),
                .time_weight = {},
                .height_weight = {},
                .width_weight = {}};
  AddWeights(&AxisTile::out_begin, &plan);
  return plan;
}

absl::StatusOr<TilePlan> PlanEncoderTiles(const LatentGrid& grid, const Tiling& tiling) {
  KINORA_ASSIGN_OR_RETURN(TilePlan plan, PlanTiles(grid, tiling));
  constexpr int64_t kLeastFrames = 16, kLeastPixels = 64;
  for (const auto& [name, tiles, overlap, least] :
       {std::tuple("frames", plan.time.size(), tiling.frames.overlap, kLeastFrames),
        {"height", plan.height.size(), tiling.height.overlap, kLeastPixels},
        {"width", plan.width.size(), tiling.width.overlap, kLeastPixels}}) {
    if (tiles > 1 && overlap < least) {
      return absl::InvalidArgumentError(absl::StrCat("tiling: ", name, " overlap by ", overlap, ", less than the ",
                                                     least, " that the encoder needs"));
    }
  }
  MaskCells(/*left_from_zero=*/true, &plan.time);
  MaskCells(/*left_from_zero=*/false, &plan.height);
  MaskCells(/*left_from_zero=*/false, &plan.width);
  AddWeights(&AxisTile::begin, &plan);
  return plan;
}

}  // namespace kinora
