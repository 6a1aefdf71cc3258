#include "engine/pipeline/diffusion_decoder.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/pipeline/diffusion_tiling.h"

namespace kinora {
namespace {

using Extents = DiffusionDecoderConfig::Extents;

Shape LatentOf(const LatentGrid& grid, int64_t channels) { return {grid.frames, grid.height, grid.width, channels}; }

// Cuts a draw for the clip [colours, frames, height, width] to a tile's canvas. Past the clip's end the last frame
// repeats.
std::vector<float> CutNoise(absl::Span<const float> clip, const Shape& of_clip, const Shape& canvas,
                            const Extents& first) {
  std::vector<float> cut(canvas.elements());
  float* to = cut.data();
  for (int64_t c = 0; c < canvas[0]; ++c) {
    for (int64_t f = 0; f < canvas[1]; ++f) {
      const int64_t frame = std::min(first[0] + f, of_clip[1] - 1);
      for (int64_t h = 0; h < canvas[2]; ++h) {
        const int64_t row = ((c * of_clip[1] + frame) * of_clip[2] + first[1] + h) * of_clip[3] + first[2];
        to = std::copy_n(clip.data() + row, canvas[3], to);
      }
    }
  }
  return cut;
}

// Copies the part of `from` that begins at `first` to `to`; both [frames, height, width, colours].
void Crop(Stream& stream, const Tensor& from, const Extents& first, const Tensor& to) {
  const auto lines = [](const Tensor& x) { return x.Reshape({x.dim(0) * x.dim(1), x.dim(2) * x.dim(3)}); };
  const int64_t colours = from.dim(3), height = to.dim(1);
  for (int64_t f = 0; f < to.dim(0); ++f) {
    const int64_t line = (first[0] + f) * from.dim(1) + first[1];
    stream.Copy(lines(from).Rows(line, line + height).Columns(first[2] * colours, (first[2] + to.dim(2)) * colours),
                lines(to).Rows(f * height, (f + 1) * height));
  }
}

}  // namespace

absl::StatusOr<TilePlan> DiffusionDecoder::Plan(const Shape& latent, std::optional<Tiling> tiling) const {
  const DiffusionTileGrid grid = DiffusionTileGrid::Of(decoder_->config(), GridOf(latent), decoder_->CellsOf(latent));
  return PlanDiffusionTiles(grid, tiling ? *tiling : ChooseTiling(grid));
}

absl::StatusOr<Tensor> DiffusionDecoder::Features(Exec& exec, const TilePlan&, const Tensor& latent, GoOn go_on) const {
  return decoder_->Features(exec, latent, go_on);
}

DiffusionVideoDecoder::Tile DiffusionDecoder::TileOf(const TilePlan& plan, const PlannedTile& tile) const {
  return {.begin = {tile.time->begin, tile.height->begin, tile.width->begin},
          .end = {tile.time->end, tile.height->end, tile.width->end},
          .last = tile.time == &plan.time.back()};
}

bool DiffusionDecoder::OneDraw() const {
  return decoder_->config().diffusion->steps > 1 || decoder_->config().diffusion->predicts_velocity;
}

std::vector<Shape> DiffusionDecoder::NoiseDraws(const TilePlan& plan) const {
  if (OneDraw()) {
    const Extents cells = decoder_->CellsOf(LatentOf(plan.grid, latent_channels()));
    const Shape clip = decoder_->OutputShape({.end = cells});
    return {{clip[3], clip[0], clip[1], clip[2]}};
  }
  std::vector<Shape> draws;
  for (const AxisTile& time : plan.time) {
    for (const AxisTile& rows : plan.height) {
      for (const AxisTile& columns : plan.width) {
        draws.push_back(decoder_->CanvasOf(TileOf(plan, {.time = &time, .height = &rows, .width = &columns})));
      }
    }
  }
  return draws;
}

absl::Status DiffusionDecoder::Decode(Exec& exec, const TilePlan& plan, const Tensor& features, const PlannedTile& tile,
                                      const HostNoise& noise, GoOn go_on, Tensor out) const {
  const DiffusionVideoDecoder::Tile cells = TileOf(plan, tile);
  const Shape made = decoder_->OutputShape(cells);
  std::vector<float> cut;
  HostNoise own = noise;
  if (OneDraw() && plan.tiles() > 1 && !exec.ops.dry()) {
    const Extents first = {tile.time->out_begin, made[1] / (cells.end[1] - cells.begin[1]) * cells.begin[1],
                           made[2] / (cells.end[2] - cells.begin[2]) * cells.begin[2]};
    cut = CutNoise(noise.values, NoiseDraws(plan).front(), decoder_->CanvasOf(cells), first);
    own = {.values = cut};
  }
  if (made == out.shape()) return decoder_->Decode(exec, features, cells, own, go_on, out);
  ArenaScope scope(exec.arena);  // a clip that was padded
  const Tensor whole = scope.Alloc(DType::kF32, made);
  KINORA_RETURN_IF_ERROR(decoder_->Decode(exec, features, cells, own, go_on, whole));
  Extents padding = decoder_->PaddingOf(LatentOf(plan.grid, latent_channels()));
  for (int64_t& cells_before : padding) cells_before *= plan.grid.space_factor;
  Crop(exec.ops.stream(), whole, padding, out);
  return absl::OkStatus();
}

}  // namespace kinora
