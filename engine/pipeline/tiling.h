// How the video VAE's decoder is run in overlapping tiles, and how the tiles are blended again: the plan of
// Lightricks' pipelines (ltx_core/tiling.py; conv_video_decoder.py; the sizes of ltx_pipelines/utils/helpers.py), which
// is a function of the shape alone, so that a clip's pixels depend neither on the machine nor on how work was shared
// out.
//
// Along an axis of L latent cells, tiles of s cells start s − o apart, and the last ends at L. The first and last o
// cells of a tile that meet a neighbour are ramps. In time every tile but the first starts one cell earlier with a ramp
// one cell longer: a decoder's first cell becomes one frame, each later one time_factor frames.
#ifndef KINORA_ENGINE_PIPELINE_TILING_H_
#define KINORA_ENGINE_PIPELINE_TILING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/diffusion/latents.h"

namespace kinora {

// Size and overlap of the tiles of one axis, in frames or pixels; size 0: one tile.
struct AxisTiling {
  int64_t size = 0;
  int64_t overlap = 0;
};
struct Tiling {
  AxisTiling frames{}, height{}, width{};

  // What a clip gets unless something else is asked for: 80 frames overlapping by 24; 768 pixels along the longer side,
  // the shorter one in proportion, both overlapping by 64.
  static Tiling For(const LatentGrid& grid);
};

// One tile's part of one axis.
struct AxisTile {
  int64_t begin = 0, end = 0;          // latent cells
  int64_t out_begin = 0, out_end = 0;  // frames or pixels
  std::vector<float> mask;  // 0..1: the weight of each frame or pixel; in a plan for the encoder, of each latent cell
};

struct TilePlan {
  LatentGrid grid;
  Tiling tiling;
  std::vector<AxisTile> time, height, width;  // every combination is a tile; time varies slowest, width fastest
  // Sums of the masks at every output position. All within 1e-5 of 1 on every axis: tiles just add up
  // (`complementary`). Otherwise the sum of weighted tiles is divided by their product.
  std::vector<float> time_weight, height_weight, width_weight;
  bool complementary = true;

  int64_t tiles() const { return static_cast<int64_t>(time.size() * height.size() * width.size()); }
  int64_t tokens() const;  // latent cells of all tiles: those of overlaps count in each
  // "frames=80/24,height=512/64,width=768/64": size and overlap of the tiles; of an axis of one tile its extent,
  // "frames=25".
  std::string ToString() const;
  // Frames that are final once tile `t` of the time axis has been added: [time[t].out_begin, ReadyUntil(t)).
  int64_t ReadyUntil(size_t t) const { return t + 1 < time.size() ? time[t + 1].out_begin : time[t].out_end; }
};

// InvalidArgument naming the axis if a size or overlap is not a multiple of the grid's factor, a size is below two
// cells, or an overlap is not smaller than its tile. grid's extents are at least 1.
absl::StatusOr<TilePlan> PlanTiles(const LatentGrid& grid, const Tiling& tiling);
// The same tiles for the encoder, which reads frames and pixels and writes latent cells (video_vae.py,
// prepare_tiles_for_encoding): masks and weights are of cells. InvalidArgument too if tiles overlap by less than 16
// frames or 64 pixels: what an encoder makes of the edges of a tile would show.
absl::StatusOr<TilePlan> PlanEncoderTiles(const LatentGrid& grid, const Tiling& tiling);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_TILING_H_
