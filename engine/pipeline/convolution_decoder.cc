#include "engine/pipeline/convolution_decoder.h"

#include <vector>

#include "engine/base/status_macros.h"

namespace kinora {
namespace {

// Returns the indices in the clip of a tile's cells, in the tile's order.
std::vector<int32_t> CellsOf(const LatentGrid& grid, const PlannedTile& tile) {
  std::vector<int32_t> cells;
  for (int64_t f = tile.time->begin; f < tile.time->end; ++f) {
    for (int64_t h = tile.height->begin; h < tile.height->end; ++h) {
      for (int64_t w = tile.width->begin; w < tile.width->end; ++w) {
        cells.push_back(static_cast<int32_t>((f * grid.height + h) * grid.width + w));
      }
    }
  }
  return cells;
}

}  // namespace

absl::StatusOr<TilePlan> ConvolutionDecoder::Plan(const Shape& latent, std::optional<Tiling> tiling) const {
  const LatentGrid grid = GridOf(latent);
  KINORA_RETURN_IF_ERROR(decoder_->CheckLatent(latent));
  return PlanTiles(grid, tiling.value_or(Tiling::For(grid)));
}

absl::StatusOr<Tensor> ConvolutionDecoder::Features(Exec&, const TilePlan&, const Tensor& latent, GoOn) const {
  return latent;
}

absl::Status ConvolutionDecoder::Decode(Exec& exec, const TilePlan& plan, const Tensor& features,
                                        const PlannedTile& tile, const HostNoise&, GoOn, Tensor out) const {
  const std::vector<int32_t> cells = CellsOf(plan.grid, tile);
  ArenaScope scope(exec.arena);
  const Tensor z = scope.Alloc(DType::kF32, {tile.time->end - tile.time->begin, tile.height->end - tile.height->begin,
                                             tile.width->end - tile.width->begin, latent_channels()});
  const Tensor numbers = scope.Alloc(DType::kI32, {static_cast<int64_t>(cells.size())});
  exec.ops.stream().CopyFromHost(cells.data(), numbers);
  exec.ops.GatherRows(features.As2D(), numbers, 1.0f, z);
  decoder_->Forward(exec, z, out);
  return absl::OkStatus();
}

}  // namespace kinora
