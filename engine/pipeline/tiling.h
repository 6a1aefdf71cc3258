// How the video VAE runs in overlapping tiles and how the tiles are blended. The plan is that of Lightricks' pipelines
// (ltx_core/tiling.py; conv_video_decoder.py; the sizes of ltx_pipelines/utils/helpers.py). It depends only on the
// shape, so a clip's pixels depend neither on the machine nor on how ranks share the work.
//
// Along an axis of L latent cells, tiles of s cells start s − o apart, and the last ends at L. Where a tile meets a
// neighbour, its first or last o cells are a ramp. In time, every tile but the first starts one cell earlier, with a
// ramp one cell longer: the decoder turns a tile's first cell into one frame, each later cell into time_factor frames.
#ifndef KINORA_ENGINE_PIPELINE_TILING_H_
#define KINORA_ENGINE_PIPELINE_TILING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/diffusion/latents.h"

namespace kinora {

// Size and overlap of the tiles of one axis, in frames or pixels. Size 0: one tile.
struct AxisTiling {
  int64_t size = 0;
  int64_t overlap = 0;
};
struct Tiling {
  AxisTiling frames{}, height{}, width{};

  // The default tiling: 80 frames overlapping by 24; 768 pixels along the longer side and in proportion along the
  // shorter one, both overlapping by 64.
  static Tiling For(const LatentGrid& grid);
};

// One tile's part of one axis.
struct AxisTile {
  int64_t begin = 0, end = 0;          // latent cells
  int64_t out_begin = 0, out_end = 0;  // frames or pixels
  std::vector<float> mask;             // 0..1: weight per frame or pixel; in a plan for the encoder, per latent cell
};

struct TilePlan {
  LatentGrid grid;
  Tiling tiling;
  std::vector<AxisTile> time, height, width;  // every combination is a tile; time varies slowest, width fastest
  // Sums of the masks at every output position. If all are within 1e-5 of 1 (`complementary`), the weighted tiles are
  // just added. Otherwise their sum is divided by the product of the three axes' sums.
  std::vector<float> time_weight, height_weight, width_weight;
  bool complementary = true;

  int64_t tiles() const { return static_cast<int64_t>(time.size() * height.size() * width.size()); }
  int64_t tokens() const;  // latent cells of all tiles, with overlaps counted once per tile
  // Size and overlap of the tiles, or the extent of an axis with one tile: "frames=25,height=512/64,width=768/64". One
  // tile: "untiled".
  std::string ToString() const;
  // Once tile `t` of the time axis has been added, frames [time[t].out_begin, ReadyUntil(t)) are final.
  int64_t ReadyUntil(size_t t) const { return t + 1 < time.size() ? time[t + 1].out_begin : time[t].out_end; }
};

// Returns the decoder's tiles. Fails with InvalidArgument, naming the axis, if a size or overlap is not a multiple of
// the grid's factor, a size is below two cells, or an overlap is not smaller than its tile. CHECK-fails if an extent of
// `grid` is less than 1.
absl::StatusOr<TilePlan> PlanTiles(const LatentGrid& grid, const Tiling& tiling);
// Returns the same tiles for the encoder, with masks and weights per latent cell (video_vae.py,
// prepare_tiles_for_encoding). Also fails with InvalidArgument if tiles overlap by less than 16 frames or 64 pixels,
// which would make their edges visible.
absl::StatusOr<TilePlan> PlanEncoderTiles(const LatentGrid& grid, const Tiling& tiling);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_TILING_H_
