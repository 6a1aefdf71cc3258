#include "engine/pipeline/video_encode_stage.h"

#include <algorithm>
#include <numeric>

#include "engine/base/status_macros.h"
#include "engine/pipeline/step_gate.h"

namespace kinora {
namespace {

// The weight of each cell: the tile's mask divided by the sum of all masks there.
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

std::vector<VideoEncodeStage::Tile> VideoEncodeStage::TilesOf(absl::Span<const Clip> clips) const {
  std::vector<Tile> tiles;
  for (const Clip& clip : clips) {
    for (const AxisTile& t : clip.plan->time) {
      for (const AxisTile& h : clip.plan->height) {
        for (const AxisTile& w : clip.plan->width) {
          const Shape pixels = {t.out_end - t.out_begin, h.out_end - h.out_begin, w.out_end - w.out_begin,
                                encoder_.config().in_channels};
          tiles.push_back({&clip, &t, &h, &w, pixels, encoder_.OutputShape(pixels)});
        }
      }
    }
  }
  return tiles;
}

void VideoEncodeStage::ReadPixels(Exec& exec, const Tile& tile, const Tensor& to) const {
  if (exec.ops.dry()) return;
  const PixelRegion part{
      .top = tile.height->out_begin, .left = tile.width->out_begin, .height = to.dim(1), .width = to.dim(2)};
  std::vector<float> frame(to.elements() / to.dim(0));
  for (int64_t f = 0; f < to.dim(0); ++f) {
    tile.clip->pixels(tile.time->out_begin + f, part, frame.data());
    exec.ops.stream().CopyFromHost(frame.data(), to.Rows(f, f + 1));
  }
}

Shape VideoEncodeStage::PixelsOf(const TilePlan& plan) const {
  const LatentGrid& g = plan.grid;
  return {g.out_frames(), g.out_height(), g.out_width(), encoder_.config().in_channels};
}

void VideoEncodeStage::AddTile(Exec& exec, const Tile& tile, const Tensor& encoded) const {
  const TilePlan& plan = *tile.clip->plan;
  const Tensor& latent = tile.clip->latent;
  if (plan.tiles() == 1) return exec.ops.stream().Copy(encoded, latent);
  const int64_t channels = latent.dim(3);
  std::vector<float> weights;  // column weights come first, for alignment
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

// Rank 0 uses one buffer for all tiles and reads its own last, so that its own remains there.
Tensor VideoEncodeStage::SharePixels(Exec& exec, absl::Span<const Tile> tiles, ArenaScope& scope) const {
  Communicator& world = exec.mesh.world();
  const size_t mine = world.rank();
  int64_t largest = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (mine == 0 || mine == i) largest = std::max(largest, tiles[i].pixels.elements());
  }
  const Tensor room = scope.Alloc(DType::kF32, {largest});
  const auto part = [&](size_t i) { return room.Rows(0, tiles[i].pixels.elements()); };
  for (size_t i = tiles.size(); i-- > 0;) {
    if (mine == 0) ReadPixels(exec, tiles[i], part(i).Reshape(tiles[i].pixels));
    if (i == 0) break;
    std::vector<int64_t> counts(world.size(), 0);
    counts[0] = tiles[i].pixels.elements();
    const Tensor none = room.Rows(0, 0);
    world.GatherTo(static_cast<int>(i), counts, mine == 0 ? part(i) : none, mine == i ? part(i) : none,
                   exec.ops.stream());
  }
  return mine < tiles.size() ? part(mine).Reshape(tiles[mine].pixels) : Tensor();
}

void VideoEncodeStage::EncodeRound(Exec& exec, absl::Span<const Tile> tiles) const {
  Communicator& world = exec.mesh.world();
  const size_t mine = world.rank(), ranks = world.size();
  ArenaScope scope(exec.arena);
  const Tensor pixels = SharePixels(exec, tiles, scope);
  if (ranks == 1 && tiles[0].clip->plan->tiles() == 1) return encoder_.Forward(exec, pixels, tiles[0].clip->latent);
  std::vector<int64_t> counts(ranks, 0);
  for (size_t i = 0; i < tiles.size(); ++i) counts[i] = tiles[i].latent.elements();
  const Tensor encoded = scope.Alloc(DType::kF32, {counts[mine]});
  if (mine < tiles.size()) encoder_.Forward(exec, pixels, encoded.Reshape(tiles[mine].latent));
  Tensor all = encoded;
  if (ranks > 1) {
    const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    all = mine == 0 ? scope.Alloc(DType::kF32, {sum}) : Tensor();
    world.GatherTo(0, counts, encoded, all, exec.ops.stream());
  }
  int64_t begin = 0;
  for (size_t i = 0; mine == 0 && i < tiles.size(); begin += counts[i++]) {
    AddTile(exec, tiles[i], all.Rows(begin, begin + counts[i]).Reshape(tiles[i].latent));
  }
}

absl::Status VideoEncodeStage::Run(Exec& exec, absl::Span<const Clip> clips, OnRound on_round) const {
  const size_t ranks = exec.mesh.world().size();
  for (const Clip& clip : clips) {
    KINORA_CHECK(clip.latent.shape() == encoder_.OutputShape(PixelsOf(*clip.plan))) << clip.latent.shape().ToString();
    if (clip.plan->tiles() > 1 && exec.mesh.world().rank() == 0) exec.ops.Fill(0.0f, clip.latent);
  }
  const std::vector<Tile> tiles = TilesOf(clips);
  const auto on_step = [&](int64_t round) {
    return on_round(static_cast<int64_t>(std::min((round + 1) * ranks, tiles.size())));
  };
  StepGate gate(exec, on_step, /*ahead=*/true, "tiles");
  for (size_t first = 0; first < tiles.size(); first += ranks) {
    EncodeRound(exec, absl::MakeConstSpan(tiles).subspan(first, ranks));
    KINORA_RETURN_IF_ERROR(gate.Pass());
  }
  KINORA_RETURN_IF_ERROR(gate.Finish());
  for (const Clip& clip : clips) exec.mesh.world().Broadcast(0, clip.latent, exec.ops.stream());
  return absl::OkStatus();
}

}  // namespace kinora
