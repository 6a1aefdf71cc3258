#include "engine/pipeline/video_decode_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"
#include "engine/ops/dry_ops.h"
#include "engine/parallel/dry_communicator.h"

namespace kinora {
namespace {

LatentGrid GridOf(const VideoDecoderConfig& config, const Shape& latent) {
  KINORA_CHECK(latent.rank() == 5 && latent[0] == 1 && latent[1] == config.latent_channels) << latent.ToString();
  return {.frames = latent[2],
          .height = latent[3],
          .width = latent[4],
          .time_factor = config.time_factor(),
          .space_factor = config.space_factor()};
}

// latent [1, C, F, H, W] -> out [f, h, w, C]: one tile, channels last.
void GatherTile(const Tensor& latent, int64_t frame, int64_t row, int64_t column, Tensor out) {
  const int64_t channels = latent.dim(1), height = latent.dim(3), width = latent.dim(4);
  const int64_t plane = latent.dim(2) * height * width;
  float* to = out.data<float>();
  for (int64_t f = 0; f < out.dim(0); ++f) {
    for (int64_t h = 0; h < out.dim(1); ++h) {
      for (int64_t w = 0; w < out.dim(2); ++w) {
        const float* from = latent.data<float>() + ((frame + f) * height + row + h) * width + column + w;
        for (int64_t c = 0; c < channels; ++c) *to++ = from[c * plane];
      }
    }
  }
}

// sum [H, W, 3] += pixels [h, w, 3] times the three masks, in the order time, height, width.
void AddFrame(const Tensor& pixels, float time_mask, const AxisTile& rows, const AxisTile& columns, Tensor sum) {
  const int64_t width = sum.dim(1), colours = sum.dim(2);
  const float* from = pixels.data<float>();
  for (int64_t y = rows.out_begin; y < rows.out_end; ++y) {
    const float row_mask = rows.mask[y - rows.out_begin];
    float* to = sum.data<float>() + (y * width + columns.out_begin) * colours;
    for (float column_mask : columns.mask) {
      for (int64_t c = 0; c < colours; ++c) *to++ += *from++ * time_mask * row_mask * column_mask;
    }
  }
}

// In place: what has been added up -> 0..1; false if there is a NaN. weights: null, or what to divide by.
bool Finish(const TilePlan* weights, int64_t frame_index, Tensor frame, Tensor rgb8) {
  float* value = frame.data<float>();
  uint8_t* out = rgb8.data<uint8_t>();
  bool finite = true;
  for (int64_t y = 0; y < frame.dim(0); ++y) {
    for (int64_t x = 0; x < frame.dim(1); ++x) {
      float weight = 1;
      if (weights != nullptr) {
        weight = weights->time_weight[frame_index] * weights->height_weight[y] * weights->width_weight[x];
        weight = std::max(weight, 1e-8f);
      }
      for (int64_t c = 0; c < frame.dim(2); ++c, ++value, ++out) {
        const float v = (*value / weight + 1.0f) * 0.5f;
        finite &= !std::isnan(v);
        *value = v > 0.0f ? std::min(v, 1.0f) : 0.0f;
        *out = static_cast<uint8_t>(*value * 255.0f);
      }
    }
  }
  return finite;
}

// Frames [begin, end) of the sums become pixels and leave. group's first frame is frame `begin` of the clip.
absl::Status EmitReady(const TilePlan& plan, int64_t begin, int64_t end, const Tensor& group, const Tensor& all_rgb8,
                       VideoDecodeStage::Emit emit) {
  const Shape frame_shape = {group.dim(1), group.dim(2), group.dim(3)};
  for (int64_t first = begin; first < end; first += VideoDecodeStage::kFramesPerCall) {
    const int64_t count = std::min(VideoDecodeStage::kFramesPerCall, end - first);
    const Tensor rgb = group.Rows(first - begin, first - begin + count), rgb8 = all_rgb8.Rows(0, count);
    for (int64_t i = 0; i < count; ++i) {
      if (!Finish(plan.complementary ? nullptr : &plan, first + i, rgb.Rows(i, i + 1).Reshape(frame_shape),
                  rgb8.Rows(i, i + 1).Reshape(frame_shape))) {
        return absl::InternalError(absl::StrCat("frame ", first + i, " holds pixels that are not numbers"));
      }
    }
    KINORA_RETURN_IF_ERROR(emit({.first = first, .rgb = rgb, .rgb8 = rgb8}));
  }
  return absl::OkStatus();
}

}  // namespace

// What a run holds beyond a round.
struct VideoDecodeStage::State {
  bool root;            // emits, and holds the sums
  Tensor group;         // [longest span, H, W, 3] f32: sums of the current group, from its first frame on
  Tensor rgb8;          // [kFramesPerCall, H, W, 3]
  int64_t done = 0;     // tiles
  int64_t carried = 0;  // frames at the start of `group` that earlier groups have begun

  void Clear(int64_t span) const {
    const Tensor fresh = group.Rows(carried, span);
    std::memset(fresh.raw(), 0, fresh.bytes());
  }
  void KeepFrom(int64_t ready, int64_t span) {
    carried = span - ready;
    std::memmove(group.raw(), group.Rows(ready, span).raw(), group.Rows(0, carried).bytes());
  }
};

absl::StatusOr<TilePlan> VideoDecodeStage::Plan(const Shape& latent) const {
  const LatentGrid grid = GridOf(decoder_.config(), latent);
  KINORA_RETURN_IF_ERROR(decoder_.CheckLatent({grid.frames, grid.height, grid.width, latent[1]}));
  return PlanTiles(grid, tiling_.value_or(Tiling::For(grid)));
}

absl::StatusOr<VideoDecodeStage::Memory> VideoDecodeStage::MemoryFor(DType dtype, const Shape& latent,
                                                                     const MeshShape& mesh_shape) const {
  DryOps ops;
  Arena device = Arena::Dry(), host = Arena::Dry();
  KINORA_ASSIGN_OR_RETURN(const auto mesh, MakeDryMesh(mesh_shape));
  Exec exec{.ops = ops, .arena = device, .mesh = *mesh, .dtype = dtype};
  const auto nothing = [](auto&&...) { return absl::OkStatus(); };
  KINORA_RETURN_IF_ERROR(Run(exec, host, Tensor(DType::kF32, latent, nullptr), nothing, nothing));
  return Memory{.device = device.peak(), .host = host.peak()};
}

std::vector<VideoDecodeStage::Tile> VideoDecodeStage::TilesOf(const TilePlan& plan, size_t t) const {
  std::vector<Tile> tiles;
  const AxisTile& time = plan.time[t];
  for (const AxisTile& rows : plan.height) {
    for (const AxisTile& columns : plan.width) {
      const Shape shape = {time.end - time.begin, rows.end - rows.begin, columns.end - columns.begin,
                           decoder_.config().latent_channels};
      tiles.push_back({&time, &rows, &columns, shape});
    }
  }
  return tiles;
}

absl::Status VideoDecodeStage::AddTile(Exec& exec, Arena& host, const Tensor& pixels, const Tile& tile,
                                       const Tensor& group) const {
  ArenaScope scope(host);
  const Tensor frame = scope.Alloc(DType::kF32, {pixels.dim(1), pixels.dim(2), pixels.dim(3)});
  for (int64_t f = 0; f < pixels.dim(0); ++f) {
    exec.ops.stream().Copy(pixels.Rows(f, f + 1).Reshape(frame.shape()), frame);
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    if (exec.ops.dry()) continue;
    AddFrame(frame, tile.time->mask[f], *tile.height, *tile.width,
             group.Rows(f, f + 1).Reshape({group.dim(1), group.dim(2), group.dim(3)}));
  }
  return absl::OkStatus();
}

// tiles: at most one a rank.
absl::Status VideoDecodeStage::DecodeRound(Exec& exec, Arena& host, const Tensor& latent, absl::Span<const Tile> tiles,
                                           State& state) const {
  Communicator& world = exec.mesh.world();
  Stream& stream = exec.ops.stream();
  const size_t mine = world.rank();
  int64_t largest = 0;
  for (const Tile& tile : tiles) largest = std::max(largest, decoder_.OutputShape(tile.latent_shape).elements());
  ArenaScope scope(exec.arena);
  const Tensor decoded = scope.Alloc(DType::kF32, {largest});
  const Tensor received = world.size() > 1 ? scope.Alloc(DType::kF32, {largest}) : Tensor();
  const auto pixels = [&](const Tensor& buffer, const Tile& tile) {
    return Tensor(DType::kF32, decoder_.OutputShape(tile.latent_shape), buffer.raw());
  };
  if (mine < tiles.size()) {
    const Tile& tile = tiles[mine];
    ArenaScope host_scope(host);
    const Tensor gathered = host_scope.Alloc(DType::kF32, tile.latent_shape);
    const Tensor z = scope.Alloc(DType::kF32, tile.latent_shape);
    if (!exec.ops.dry()) GatherTile(latent, tile.time->begin, tile.height->begin, tile.width->begin, gathered);
    stream.Copy(gathered, z);
    decoder_.Forward(exec, z, pixels(decoded, tile));
    KINORA_RETURN_IF_ERROR(stream.Synchronize());
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    const Tensor tile = pixels(i == mine ? decoded : received, tiles[i]);
    world.Broadcast(static_cast<int>(i), tile, stream);
    KINORA_RETURN_IF_ERROR(stream.Synchronize());
    if (state.root) KINORA_RETURN_IF_ERROR(AddTile(exec, host, tile, tiles[i], state.group));
  }
  state.done += static_cast<int64_t>(tiles.size());
  return absl::OkStatus();
}

absl::Status VideoDecodeStage::Run(Exec& exec, Arena& host, const Tensor& latent, Emit emit, Progress progress) const {
  KINORA_ASSIGN_OR_RETURN(const TilePlan plan, Plan(latent.shape()));
  int64_t longest = 0;
  for (const AxisTile& time : plan.time) longest = std::max(longest, time.out_end - time.out_begin);
  const int64_t height = plan.grid.out_height(), width = plan.grid.out_width();
  const int64_t colours = decoder_.config().out_channels;
  const size_t ranks = exec.mesh.world().size();
  const bool dry = exec.ops.dry();
  ArenaScope scope(host);
  State state{.root = exec.mesh.world().rank() == 0, .group = {}, .rgb8 = {}};
  if (state.root) {
    state.group = scope.Alloc(DType::kF32, {longest, height, width, colours});
    state.rgb8 = scope.Alloc(DType::kU8, {kFramesPerCall, height, width, colours});
  }
  absl::Status emitted;
  for (size_t t = 0; t < plan.time.size(); ++t) {
    const int64_t begin = plan.time[t].out_begin, span = plan.time[t].out_end - begin;
    const int64_t ready = plan.ReadyUntil(t) - begin;
    const std::vector<Tile> tiles = TilesOf(plan, t);
    if (state.root && !dry) state.Clear(span);
    for (size_t first = 0; first < tiles.size(); first += ranks) {
      if (state.root && emitted.ok()) emitted = progress(state.done, plan.tiles());
      KINORA_RETURN_IF_ERROR(AgreeWithRankZero(exec, emitted));
      KINORA_RETURN_IF_ERROR(DecodeRound(exec, host, latent, absl::MakeConstSpan(tiles).subspan(first, ranks), state));
    }
    if (!state.root || dry) continue;
    emitted = EmitReady(plan, begin, begin + ready, state.group, state.rgb8, emit);
    state.KeepFrom(ready, span);
  }
  if (state.root && emitted.ok()) emitted = progress(state.done, plan.tiles());
  return AgreeWithRankZero(exec, emitted);
}

}  // namespace kinora
