#include "engine/pipeline/video_decode_stage.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"
#include "engine/pipeline/step_gate.h"

namespace kinora {
namespace {

// The tiles of one span of time.
std::vector<PlannedTile> TilesOf(const TilePlan& plan, size_t t) {
  std::vector<PlannedTile> tiles;
  for (const AxisTile& rows : plan.height) {
    for (const AxisTile& columns : plan.width) {
      tiles.push_back({.time = &plan.time[t], .height = &rows, .width = &columns});
    }
  }
  return tiles;
}

// Whether one draw of noise serves all tiles.
bool DrawsForClip(const TilePlan& plan, int64_t draws) { return draws == 1 && plan.tiles() > 1; }

// Whether the work on a tile goes on. On a device waits for what is enqueued, and leaves a failure to the stream.
absl::Status GoOn(Exec& exec, const VideoDecodeStage::Follower& follower) {
  if (exec.ops.dry()) return absl::OkStatus();
  Stream& stream = exec.ops.stream();
  if (stream.asynchronous()) {
    const absl::Status done = stream.Synchronize();
    if (!done.ok()) stream.Fail(done);
    KINORA_RETURN_IF_ERROR(done);
  }
  return exec.mesh.world().rank() == 0 ? follower.work() : absl::OkStatus();
}

}  // namespace

std::optional<int64_t> VideoDecodeStage::FirstDraw(const TilePlan& plan, int64_t draws, int64_t rank, int64_t ranks) {
  if (draws == 0) return std::nullopt;
  if (DrawsForClip(plan, draws)) return 0;
  const auto of_group = static_cast<int64_t>(plan.height.size() * plan.width.size());
  return rank < std::min(ranks, of_group) ? std::optional(rank) : std::nullopt;
}

// Draws the noise of a round. A draw for the whole clip is made in its first round.
absl::Status VideoDecodeStage::Noise::Take(absl::Span<const PlannedTile> tiles, size_t mine) {
  for (size_t i = 0; i < tiles.size() && left > 0; ++i, --left) {
    const bool wanted = i == mine || of_clip;
    KINORA_ASSIGN_OR_RETURN(const HostNoise drawn, draw(wanted));
    if (wanted) values = drawn;
  }
  return absl::OkStatus();
}

absl::Status VideoDecodeStage::DecodeRound(Exec& exec, Shared& shared, absl::Span<const PlannedTile> tiles,
                                           Noise& noise) const {
  const size_t mine = exec.mesh.world().rank();
  KINORA_RETURN_IF_ERROR(noise.Take(tiles, mine));
  int64_t largest = 0;
  for (const PlannedTile& tile : tiles) largest = std::max(largest, ElementsOf(tile));
  ArenaScope scope(exec.arena);
  const Tensor decoded = scope.Alloc(DType::kF32, {largest});
  if (mine < tiles.size() && shared.ended.ok()) {
    const Tensor out(DType::kF32, tiles[mine].OutputShape(decoder_.colours()), decoded.raw());
    shared.ended = decoder_.Decode(exec, shared.plan, shared.features, tiles[mine], noise.values, shared.go_on, out);
  }
  AddRound(exec, decoded, tiles, shared.blender);
  return absl::OkStatus();
}

// decoded: this rank's tile, if it has one. All tiles of a round have the same frames. Rank 0 gathers them a few frames
// at a time, so that they take no more memory there than one tile.
void VideoDecodeStage::AddRound(Exec& exec, const Tensor& decoded, absl::Span<const PlannedTile> tiles,
                                FrameBlender* blender) const {
  Communicator& world = exec.mesh.world();
  const AxisTile& time = *tiles[0].time;
  const int64_t ranks = world.size(), frames = time.out_end - time.out_begin;
  const int64_t at_once = (frames + ranks - 1) / ranks;
  std::vector<int64_t> frame(ranks, 0);  // elements per frame of each rank's tile
  for (size_t i = 0; i < tiles.size(); ++i) {
    frame[i] = ElementsOf(tiles[i]) / frames;
  }
  const int64_t of_all = std::accumulate(frame.begin(), frame.end(), int64_t{0}), mine = frame[world.rank()];
  ArenaScope scope(exec.arena);
  const Tensor room = blender != nullptr && ranks > 1 ? scope.Alloc(DType::kF32, {at_once * of_all}) : Tensor();
  std::vector<PixelWeights> weights;
  for (size_t i = 0; blender != nullptr && i < tiles.size(); ++i) {
    weights.push_back(blender->UploadWeights(time.mask, tiles[i].height->mask, tiles[i].width->mask, scope));
  }
  for (int64_t first = 0; first < frames; first += at_once) {
    const int64_t count = std::min(at_once, frames - first);
    std::vector<int64_t> counts = frame;
    for (int64_t& elements : counts) elements *= count;
    const Tensor local = decoded.Rows(first * mine, (first + count) * mine);
    const Tensor all = room.defined() ? room.Rows(0, count * of_all) : local;
    if (ranks > 1) world.GatherTo(0, counts, local, all, exec.ops.stream());
    int64_t begin = 0;
    for (size_t i = 0; blender != nullptr && i < tiles.size(); begin += counts[i++]) {
      const Shape tile = tiles[i].OutputShape(decoder_.colours());
      const Tensor pixels = all.Rows(begin, begin + counts[i]).Reshape({count, tile[1], tile[2], tile[3]});
      TileBlend blend{.weights = weights[i], .row = tiles[i].height->out_begin, .column = tiles[i].width->out_begin};
      blend.weights.frames = weights[i].frames.Rows(first, first + count);
      blender->Add(pixels, blend, time.out_begin + first);
    }
  }
}

absl::Status VideoDecodeStage::DecodeTiles(Exec& exec, Shared& shared, Noise& noise, StepGate& gate) const {
  const auto ranks = static_cast<size_t>(exec.mesh.world().size());
  for (size_t t = 0; t < shared.plan.time.size(); ++t) {
    const std::vector<PlannedTile> tiles = TilesOf(shared.plan, t);
    if (shared.blender != nullptr) shared.blender->Begin(t);
    for (size_t first = 0; first < tiles.size(); first += ranks) {
      const auto round = absl::MakeConstSpan(tiles).subspan(first, ranks);
      KINORA_RETURN_IF_ERROR(DecodeRound(exec, shared, round, noise));
      if (shared.blender != nullptr && first + ranks >= tiles.size()) shared.blender->Finish(t);
      KINORA_RETURN_IF_ERROR(gate.Pass());
    }
  }
  return gate.Finish();
}

absl::Status VideoDecodeStage::Run(Exec& exec, const TilePlan& plan, const Tensor& latent, DrawNoise draw_noise,
                                   const Follower& follower) const {
  KINORA_CHECK(plan.grid == decoder_.GridOf(latent.shape())) << latent.shape().ToString();
  const auto ranks = static_cast<int64_t>(exec.mesh.world().size());
  const auto tiles_of_group = static_cast<int64_t>(plan.height.size() * plan.width.size());
  const int64_t rounds = (tiles_of_group + ranks - 1) / ranks;  // per group
  const bool apart = !exec.backend.traits().unified_memory, ahead = apart && !follower.floats;
  ArenaScope device(exec.arena), host(exec.host);
  std::optional<FrameBlender> blender;
  if (exec.mesh.world().rank() == 0) {
    const FrameBlender::Options options{.colours = decoder_.colours(),
                                        .ahead = ahead,
                                        .groups = apart && rounds == 1 && plan.time.size() > 1 ? 2 : 1,
                                        .floats = follower.floats};
    blender.emplace(exec, plan, options, device, host);
  }
  KINORA_RETURN_IF_ERROR(OnRankZero(exec, [&] { return follower.progress(0, plan.tiles()); }));
  const auto go_on = [&] { return GoOn(exec, follower); };
  Shared shared{.plan = plan, .blender = blender.has_value() ? &*blender : nullptr, .go_on = go_on};
  const auto on_round = [&](int64_t round) -> absl::Status {
    KINORA_RETURN_IF_ERROR(shared.ended);
    const int64_t t = round / rounds, of_group = round % rounds + 1;
    if (of_group == rounds) KINORA_RETURN_IF_ERROR(blender->EmitGroup(t, follower.emit));
    return follower.progress(t * tiles_of_group + std::min(of_group * ranks, tiles_of_group), plan.tiles());
  };
  const absl::StatusOr<Tensor> features = decoder_.Features(exec, plan, latent, go_on);
  shared.ended = features.status();
  if (features.ok()) shared.features = *features;
  const auto draws = static_cast<int64_t>(decoder_.NoiseDraws(plan).size());
  Noise noise{.left = draws, .of_clip = DrawsForClip(plan, draws), .draw = draw_noise};
  StepGate gate(exec, on_round, ahead, "tiles");
  return DecodeTiles(exec, shared, noise, gate);
}

}  // namespace kinora
