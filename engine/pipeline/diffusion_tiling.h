// The tiles of the diffusion decoder: of its last stage and denoiser, on the grid of the last stage
// (ltx_core/model/video_vae/diffusion_tiling.py). A tile of cells makes pixels and frames; only the tile at the clip's
// beginning drops the first frame, so every other tile begins a frame earlier than its cells alone would.
#ifndef KINORA_ENGINE_PIPELINE_DIFFUSION_TILING_H_
#define KINORA_ENGINE_PIPELINE_DIFFUSION_TILING_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/config/decoder_config.h"
#include "engine/diffusion/latents.h"
#include "engine/pipeline/tiling.h"

namespace kinora {

struct DiffusionTileGrid {
  LatentGrid clip;
  DiffusionDecoderConfig::Extents cells{};    // of the clip, with the padding of a small one
  DiffusionDecoderConfig::Extents scale{};    // frames and pixels per cell
  DiffusionDecoderConfig::Extents least{};    // cells of the smallest tile, so that windows fit
  DiffusionDecoderConfig::Extents overlap{};  // frames and pixels that the blocks' windows need
  int64_t patch = 4;                          // pixels along a side of a position of the denoiser's grid
  bool padded[3] = {};                        // axes of which the clip is smaller than the decoder's smallest latent

  static DiffusionTileGrid Of(const VideoDecoderConfig& config, const LatentGrid& clip,
                              const DiffusionDecoderConfig::Extents& cells);
};

// Returns the tiling with the fewest positions in all tiles, counting each as whole, of those with at most
// kMostTilePositions positions of the denoiser's grid per tile. It depends on the clip's shape alone. The reference's
// depends on the free memory instead.
Tiling ChooseTiling(const DiffusionTileGrid& grid);
inline constexpr int64_t kMostTilePositions = int64_t{9} << 20;

// Returns the tiles. A padded axis has one tile. Also fails with InvalidArgument, naming the axis, if tiles overlap by
// less than `overlap`.
absl::StatusOr<TilePlan> PlanDiffusionTiles(const DiffusionTileGrid& grid, const Tiling& tiling);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DIFFUSION_TILING_H_
