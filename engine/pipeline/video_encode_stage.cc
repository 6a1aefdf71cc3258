#include "engine/pipeline/video_encode_stage.h"

#include <algorithm>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/parallel/dry_run.h"

namespace kinora {
namespace {

// The weight of each cell: its share of all the masks that it lies under.
std::vector<float> SharesOf(const AxisTile& tile, const std::vector<float>& sums) {
  std::vector<float> shares = tile.mask;
  for (size_t i = 0; i < shares.size(); ++i) shares[i] /= std::max(sums[tile.begin + static_cast<int64_t>(i)], 1e-8f);
  return shares;
}

}  // namespace

absl::StatusOr<TilePlan> VideoEncodeStage::Plan(const Shape& pixels, std::optional<Tiling> tiling) const {
  KINORA_RETURN_IF_ERROR(encoder_.CheckPixels(pixels));
  const Shape latent = encoder_.OutputShape(pixels);
  const LatentGrid grid{.frames = latent[0],
                        .height = latent[1],
                        .width = latent[2],
                        .time_factor = encoder_.config().time_factor(),
                        .space_factor = encoder_.config().space_factor()};
  return PlanEncoderTiles(grid, tiling.value_or(Tiling::For(grid)));
}

// The tile's pixels on the device.
Tensor VideoEncodeStage::ReadPixels(Exec& exec, const Tile& tile, Pixels pixels, ArenaScope& scope) const {
  const AxisTile &t = *tile.time, &h = *tile.height, &w = *tile.width;
  const PixelRegion part{
      .top = h.out_begin, .left = w.out_begin, .height = h.out_end - h.out_begin, .width = w.out_end - w.out_begin};
  const Tensor to =
      scope.Alloc(DType::kF32, {t.out_end - t.out_begin, part.height, part.width, encoder_.config().in_channels});
  if (exec.ops.dry()) return to;
  std::vector<float> frame(to.elements() / to.dim(0));
  for (int64_t f = 0; f < to.dim(0); ++f) {
    pixels(t.out_begin + f, part, frame.data());
    exec.ops.stream().CopyFromHost(frame.data(), to.Rows(f, f + 1));
  }
  return to;
}

Shape VideoEncodeStage::PixelsOf(const TilePlan& plan) const {
  const LatentGrid& g = plan.grid;
  return {g.out_frames(), g.out_height(), g.out_width(), encoder_.config().in_channels};
}

void VideoEncodeStage::AddTile(Exec& exec, const TilePlan& plan, const Tile& tile, const Tensor& encoded,
                               const Tensor& latent) const {
  const int64_t channels = latent.dim(3);
  std::vector<float> weights;  // those of columns come first, for alignment
  for (const float share : SharesOf(*tile.width, plan.width_weight)) weights.insert(weights.end(), channels, share);
  const auto line = static_cast<int64_t>(weights.size());
  for (const float share : SharesOf(*tile.height, plan.height_weight)) weights.push_back(share);
  const auto frames = static_cast<int64_t>(weights.size());
  for (const float share : SharesOf(*tile.time, plan.time_weight)) weights.push_back(share);
  const auto all = static_cast<int64_t>(weights.size());
  ArenaScope scope(exec.arena);
  const Tensor table = scope.Alloc(DType::kF32, {all});
  exec.ops.stream().CopyFromHost(weights.data(), table);
  const TileBlend blend{
      .weights = {.frames = table.Rows(frames, all), .rows = table.Rows(line, frames), .columns = table.Rows(0, line)},
      .row = tile.height->begin,
      .column = tile.width->begin};
  exec.ops.AddTile(encoded, blend, latent.Rows(tile.time->begin, tile.time->end));
}

absl::Status VideoEncodeStage::Run(Exec& exec, const TilePlan& plan, Pixels pixels, Tensor latent,
                                   absl::FunctionRef<absl::Status()> on_tile) const {
  KINORA_CHECK(latent.shape() == encoder_.OutputShape(PixelsOf(plan))) << latent.shape().ToString();
  if (plan.tiles() == 1) {
    ArenaScope scope(exec.arena);
    const Tile whole{&plan.time[0], &plan.height[0], &plan.width[0]};
    encoder_.Forward(exec, ReadPixels(exec, whole, pixels, scope), latent);
    return on_tile();
  }
  exec.ops.Fill(0.0f, latent);
  for (const AxisTile& time : plan.time) {
    for (const AxisTile& height : plan.height) {
      for (const AxisTile& width : plan.width) {
        ArenaScope scope(exec.arena);
        const Tensor part = ReadPixels(exec, {&time, &height, &width}, pixels, scope);
        const Tensor encoded = scope.Alloc(DType::kF32, encoder_.OutputShape(part.shape()));
        encoder_.Forward(exec, part, encoded);
        AddTile(exec, plan, {&time, &height, &width}, encoded, latent);
        KINORA_RETURN_IF_ERROR(on_tile());
      }
    }
  }
  return absl::OkStatus();
}

int64_t VideoEncodeStage::ArenaBytes(DType dtype, const TilePlan& plan) const {
  return DryRunArenaBytes(dtype, [&](Exec& exec) {
    const Tensor latent(DType::kF32, encoder_.OutputShape(PixelsOf(plan)), nullptr);
    KINORA_CHECK(Run(
                     exec, plan, [](int64_t, const PixelRegion&, float*) {}, latent)
                     .ok());
  });
}

}  // namespace kinora
