#include "engine/pipeline/diffusion_tiling.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/axis_tiles.h"

namespace kinora {
namespace {

using Extents = DiffusionDecoderConfig::Extents;
constexpr std::string_view kAxes[] = {"frames", "height", "width"};
constexpr int64_t kMostSpaceTiles = 16;  // along a side

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }

Extents ClipExtents(const LatentGrid& clip) { return {clip.out_frames(), clip.out_height(), clip.out_width()}; }
int64_t FactorOf(const LatentGrid& clip, int axis) { return axis == 0 ? clip.time_factor : clip.space_factor; }

// The size of `count` tiles of an axis, or nullopt if so many would be smaller than their ramps or than others need.
std::optional<int64_t> SizeOf(const DiffusionTileGrid& grid, int axis, int64_t count) {
  const int64_t extent = ClipExtents(grid.clip)[axis], overlap = grid.overlap[axis];
  if (count > CeilDiv(extent, FactorOf(grid.clip, axis))) return std::nullopt;
  if (count == 1) return RoundUp(extent, FactorOf(grid.clip, axis));
  const int64_t size = RoundUp(CeilDiv(extent + (count - 1) * overlap, count), FactorOf(grid.clip, axis));
  const int64_t least = std::max({2 * overlap, 2 * FactorOf(grid.clip, axis), grid.least[axis] * grid.scale[axis]});
  if (grid.padded[axis] || size < least || size >= extent) return std::nullopt;
  return size;
}

// Tiles whose last one is below the smallest begins earlier, and its ramp is longer.
void GrowLast(int64_t least, std::vector<CellInterval>& tiles) {
  CellInterval& last = tiles.back();
  if (tiles.size() == 1 || last.end - last.begin >= least) return;
  last.begin = std::max<int64_t>(0, last.end - least);
  CellInterval& before = tiles[tiles.size() - 2];
  before.right_ramp = last.left_ramp = before.end - last.begin;
}

std::vector<AxisTile> TilesOf(const DiffusionTileGrid& grid, int axis, const AxisTiling& cells) {
  const int64_t scale = grid.scale[axis], extent = ClipExtents(grid.clip)[axis];
  std::vector<CellInterval> intervals = SplitCells(grid.cells[axis], cells.size, cells.overlap);
  if (intervals.size() == 1) return {{0, grid.cells[axis], 0, extent, std::vector<float>(extent, 1.0f)}};
  GrowLast(grid.least[axis], intervals);
  const int64_t dropped = axis == 0 ? scale - 1 : 0;  // frames, at the clip's beginning
  std::vector<AxisTile> tiles;
  for (const CellInterval& i : intervals) {
    const int64_t begin = std::max<int64_t>(0, i.begin * scale - dropped), end = i.end * scale - dropped;
    tiles.push_back({i.begin, i.end, begin, end,
                     Trapezoid(end - begin, i.left_ramp * scale, i.right_ramp * scale, /*left_from_zero=*/false)});
  }
  return tiles;
}

// A tiling with so many tiles along each axis. The last tile of an axis can be smaller; that is not counted.
struct Choice {
  Tiling tiling;
  int64_t of_tile = 0, tiles = 0;  // positions of the denoiser's grid in a tile; number of tiles

  std::pair<int64_t, int64_t> order() const { return {of_tile * tiles, tiles}; }
};

std::optional<Choice> ChoiceOf(const DiffusionTileGrid& grid, const std::array<int64_t, 3>& counts) {
  Choice choice{.of_tile = 1, .tiles = counts[0] * counts[1] * counts[2]};
  AxisTiling* const axes[] = {&choice.tiling.frames, &choice.tiling.height, &choice.tiling.width};
  for (int axis = 0; axis < 3; ++axis) {
    const std::optional<int64_t> size = SizeOf(grid, axis, counts[axis]);
    if (!size) return std::nullopt;
    choice.of_tile *= axis == 0 ? *size : *size / grid.patch;
    if (counts[axis] > 1) *axes[axis] = {.size = *size, .overlap = grid.overlap[axis]};
  }
  return choice;
}

}  // namespace

DiffusionTileGrid DiffusionTileGrid::Of(const VideoDecoderConfig& config, const LatentGrid& clip,
                                        const Extents& cells) {
  const DiffusionDecoderConfig& d = *config.diffusion;
  const DiffusionDecoderConfig::Stage& last = d.stages.back();
  DiffusionTileGrid grid{.clip = clip, .cells = cells, .patch = config.patch_size};
  const Extents smallest = d.SmallestLatent(), latent = {clip.frames, clip.height, clip.width};
  Extents halo{};  // cells, of each side
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t stride = last.stride[axis];
    grid.scale[axis] = axis == 0 ? stride : stride * config.patch_size;
    grid.least[axis] = std::max(last.window[axis], CeilDiv(d.denoiser.window[axis], stride));
    grid.padded[axis] = latent[axis] < smallest[axis];
    halo[axis] = std::max(last.blocks * (last.window[axis] / 2),
                          CeilDiv(d.denoiser.blocks * (d.denoiser.window[axis] / 2), stride));
  }
  halo[1] = halo[2] = std::max(halo[1], halo[2]);
  for (int axis = 0; axis < 3; ++axis) {
    grid.overlap[axis] = RoundUp(halo[axis] * grid.scale[axis], FactorOf(clip, axis));
  }
  return grid;
}

// More tiles along an axis repeat more of its overlaps, so a count that fits is not increased.
Tiling ChooseTiling(const DiffusionTileGrid& grid) {
  std::optional<Choice> best, smallest;
  for (int64_t rows = 1; rows <= kMostSpaceTiles; ++rows) {
    for (int64_t columns = 1; columns <= kMostSpaceTiles; ++columns) {
      for (int64_t frames = 1;; ++frames) {
        const std::optional<Choice> choice = ChoiceOf(grid, {frames, rows, columns});
        if (!choice) break;
        if (!smallest || choice->of_tile < smallest->of_tile) smallest = choice;
        if (choice->of_tile > kMostTilePositions) continue;
        if (!best || choice->order() < best->order()) best = choice;
        break;
      }
    }
  }
  return (best ? *best : *smallest).tiling;
}

absl::StatusOr<TilePlan> PlanDiffusionTiles(const DiffusionTileGrid& grid, const Tiling& tiling) {
  const AxisTiling* const wanted[] = {&tiling.frames, &tiling.height, &tiling.width};
  std::array<std::vector<AxisTile>, 3> tiles;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t clip_cells = axis == 0 ? grid.clip.frames : axis == 1 ? grid.clip.height : grid.clip.width;
    const int64_t factor = FactorOf(grid.clip, axis);
    KINORA_ASSIGN_OR_RETURN(AxisTiling cells, InCells(kAxes[axis], *wanted[axis], clip_cells, factor));
    const bool whole = grid.padded[axis] || wanted[axis]->size == 0;
    cells = whole ? AxisTiling{.size = grid.cells[axis]}
                  : AxisTiling{.size = cells.size * factor / grid.scale[axis],
                               .overlap = cells.overlap * factor / grid.scale[axis]};
    tiles[axis] = TilesOf(grid, axis, cells);
    if (tiles[axis].size() > 1 && wanted[axis]->overlap < grid.overlap[axis]) {
      return absl::InvalidArgumentError(absl::StrCat("tiling: ", std::string(kAxes[axis]), " overlap by ",
                                                     wanted[axis]->overlap, ", less than the ", grid.overlap[axis],
                                                     " that the decoder needs"));
    }
  }
  TilePlan plan{.grid = grid.clip,
                .tiling = tiling,
                .time = std::move(tiles[0]),
                .height = std::move(tiles[1]),
                .width = std::move(tiles[2]),
                .time_weight = {},
                .height_weight = {},
                .width_weight = {}};
  AddWeights(&AxisTile::out_begin, &plan);
  return plan;
}

}  // namespace kinora
