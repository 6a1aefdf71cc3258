#include "engine/pipeline/video_decode_stage.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"

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

// Calls row(y) for each of `rows` rows, on the host's threads.
void ForEachRow(Backend& backend, int64_t rows, absl::FunctionRef<void(int64_t y)> row) {
  constexpr int64_t kRowsATask = 32;
  backend.RunOnHost((rows + kRowsATask - 1) / kRowsATask, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * kRowsATask);
    for (int64_t y = task * kRowsATask; y < end; ++y) row(y);
  });
}

// A value per column -> the same for each colour of the column, so that loops over a row run in vectors.
std::vector<float> ForEachColour(absl::Span<const float> columns, int64_t colours) {
  std::vector<float> values;
  values.reserve(columns.size() * colours);
  for (const float value : columns) values.insert(values.end(), colours, value);
  return values;
}

// sum += pixels times the three masks, in the order time, height, width.
void AddRow(const float* pixels, float time_mask, float row_mask, absl::Span<const float> column_mask, float* sum) {
  const auto count = static_cast<int64_t>(column_mask.size());
  const float* mask = column_mask.data();
  for (int64_t i = 0; i < count; ++i) sum[i] += pixels[i] * time_mask * row_mask * mask[i];
}

// In place: what has been added up -> 0..1; false if there is a NaN.
bool FinishRow(float* values, int64_t count, uint8_t* rgb8) {
  int not_a_number = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float v = (values[i] + 1.0f) * 0.5f;
    not_a_number |= static_cast<int>(v != v);
    values[i] = v > 0.0f ? std::min(v, 1.0f) : 0.0f;
    rgb8[i] = static_cast<uint8_t>(static_cast<int>(values[i] * 255.0f));
  }
  return not_a_number == 0;
}

void DivideRow(float* values, float row_weight, absl::Span<const float> column_weight) {
  const auto count = static_cast<int64_t>(column_weight.size());
  const float* weight = column_weight.data();
  for (int64_t i = 0; i < count; ++i) values[i] /= std::max(row_weight * weight[i], 1e-8f);
}

// Frames [begin, end) of the sums become pixels and leave. group's first frame is frame `begin` of the clip.
absl::Status EmitReady(Backend& backend, const TilePlan& plan, int64_t begin, int64_t end, const Tensor& group,
                       const Tensor& all_rgb8, VideoDecodeStage::Emit emit) {
  const int64_t height = group.dim(1), width = group.dim(2) * group.dim(3);
  const std::vector<float> column_weight =
      plan.complementary ? std::vector<float>() : ForEachColour(plan.width_weight, group.dim(3));
  for (int64_t first = begin; first < end; first += VideoDecodeStage::kFramesPerCall) {
    const int64_t count = std::min(VideoDecodeStage::kFramesPerCall, end - first);
    const Tensor rgb = group.Rows(first - begin, first - begin + count), rgb8 = all_rgb8.Rows(0, count);
    std::atomic<int64_t> bad = end;  // the first frame with a pixel that is not a number
    ForEachRow(backend, count * height, [&](int64_t row) {
      const int64_t frame = first + row / height, y = row % height;
      float* values = rgb.data<float>() + row * width;
      if (!plan.complementary) DivideRow(values, plan.time_weight[frame] * plan.height_weight[y], column_weight);
      if (FinishRow(values, width, rgb8.data<uint8_t>() + row * width)) return;
      for (int64_t known = bad; frame < known && !bad.compare_exchange_weak(known, frame);) {
      }
    });
    if (bad < end) return absl::InternalError(absl::StrCat("frame ", bad.load(), " holds pixels that are not numbers"));
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

absl::StatusOr<TilePlan> VideoDecodeStage::Plan(const Shape& latent, std::optional<Tiling> tiling) const {
  const LatentGrid grid = GridOf(decoder_.config(), latent);
  KINORA_RETURN_IF_ERROR(decoder_.CheckLatent({grid.frames, grid.height, grid.width, latent[1]}));
  return PlanTiles(grid, tiling.value_or(Tiling::For(grid)));
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

absl::Status VideoDecodeStage::AddTile(Exec& exec, const Tensor& pixels, const Tile& tile, int64_t begin,
                                       const Tensor& group) const {
  const int64_t height = pixels.dim(1), colours = pixels.dim(3), width = pixels.dim(2) * colours;
  const std::vector<float> column_mask = ForEachColour(tile.width->mask, colours);
  for (int64_t first = 0; first < pixels.dim(0); first += kFramesPerCall) {
    ArenaScope scope(exec.host);
    const Tensor some = pixels.Rows(first, std::min(pixels.dim(0), first + kFramesPerCall));
    const Tensor frames = exec.ops.stream().HostSide(some, scope);
    exec.ops.stream().CopyToHost(some, frames.raw());
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    if (exec.ops.dry()) continue;
    ForEachRow(exec.backend, frames.dim(0) * height, [&](int64_t i) {
      const int64_t f = begin + first + i / height, y = i % height;
      const int64_t row = f * group.dim(1) + tile.height->out_begin + y;
      float* sum = group.data<float>() + (row * group.dim(2) + tile.width->out_begin) * colours;
      AddRow(frames.data<float>() + i * width, tile.time->mask[f], tile.height->mask[y], column_mask, sum);
    });
  }
  return absl::OkStatus();
}

absl::Status VideoDecodeStage::DecodeRound(Exec& exec, const Tensor& latent, absl::Span<const Tile> tiles,
                                           State& state) const {
  Communicator& world = exec.mesh.world();
  Stream& stream = exec.ops.stream();
  const size_t mine = world.rank();
  int64_t largest = 0;
  for (const Tile& tile : tiles) largest = std::max(largest, decoder_.OutputShape(tile.latent_shape).elements());
  ArenaScope scope(exec.arena);
  const Tensor decoded = scope.Alloc(DType::kF32, {largest});
  if (mine < tiles.size()) {
    const Tile& tile = tiles[mine];
    const Tensor z = scope.Alloc(DType::kF32, tile.latent_shape);
    ArenaScope host_scope(exec.host);
    const Tensor gathered = stream.HostSide(z, host_scope);
    if (!exec.ops.dry()) GatherTile(latent, tile.time->begin, tile.height->begin, tile.width->begin, gathered);
    stream.CopyFromHost(gathered.raw(), z);
    decoder_.Forward(exec, z, Tensor(DType::kF32, decoder_.OutputShape(tile.latent_shape), decoded.raw()));
    KINORA_RETURN_IF_ERROR(stream.Synchronize());
  }
  KINORA_RETURN_IF_ERROR(AddRound(exec, decoded, tiles, state.group));
  state.done += static_cast<int64_t>(tiles.size());
  return absl::OkStatus();
}

// decoded: this rank's tile, if it has one. All tiles of a round have the same frames. They come to rank 0 so many
// frames at a time that there they take no more room than one tile.
absl::Status VideoDecodeStage::AddRound(Exec& exec, const Tensor& decoded, absl::Span<const Tile> tiles,
                                        const Tensor& group) const {
  Communicator& world = exec.mesh.world();
  const int64_t ranks = world.size(), frames = tiles[0].time->out_end - tiles[0].time->out_begin;
  const int64_t at_once = (frames + ranks - 1) / ranks;
  std::vector<int64_t> frame(ranks, 0);  // elements of a frame of each rank's tile
  for (size_t i = 0; i < tiles.size(); ++i) {
    frame[i] = decoder_.OutputShape(tiles[i].latent_shape).elements() / frames;
  }
  const int64_t of_all = std::accumulate(frame.begin(), frame.end(), int64_t{0}), mine = frame[world.rank()];
  const bool root = world.rank() == 0;
  ArenaScope scope(exec.arena);
  const Tensor room = root && ranks > 1 ? scope.Alloc(DType::kF32, {at_once * of_all}) : Tensor();
  for (int64_t first = 0; first < frames; first += at_once) {
    const int64_t count = std::min(at_once, frames - first);
    std::vector<int64_t> counts = frame;
    for (int64_t& elements : counts) elements *= count;
    const Tensor local = decoded.Rows(first * mine, (first + count) * mine);
    const Tensor all = room.defined() ? room.Rows(0, count * of_all) : local;
    if (ranks > 1) world.GatherTo(0, counts, local, all, exec.ops.stream());
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    int64_t begin = 0;
    for (size_t i = 0; root && i < tiles.size(); begin += counts[i++]) {
      const Shape tile = decoder_.OutputShape(tiles[i].latent_shape);
      const Tensor pixels = all.Rows(begin, begin + counts[i]).Reshape({count, tile[1], tile[2], tile[3]});
      KINORA_RETURN_IF_ERROR(AddTile(exec, pixels, tiles[i], first, group));
    }
  }
  return absl::OkStatus();
}

absl::Status VideoDecodeStage::Run(Exec& exec, const TilePlan& plan, const Tensor& latent, Emit emit,
                                   Progress progress) const {
  KINORA_CHECK(plan.grid == GridOf(decoder_.config(), latent.shape())) << latent.shape().ToString();
  int64_t longest = 0;
  for (const AxisTile& time : plan.time) longest = std::max(longest, time.out_end - time.out_begin);
  const int64_t height = plan.grid.out_height(), width = plan.grid.out_width();
  const int64_t colours = decoder_.config().out_channels;
  const size_t ranks = exec.mesh.world().size();
  const bool dry = exec.ops.dry();
  ArenaScope scope(exec.host);
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
      KINORA_RETURN_IF_ERROR(DecodeRound(exec, latent, absl::MakeConstSpan(tiles).subspan(first, ranks), state));
    }
    if (!state.root || dry) continue;
    emitted = EmitReady(exec.backend, plan, begin, begin + ready, state.group, state.rgb8, emit);
    state.KeepFrom(ready, span);
  }
  if (state.root && emitted.ok()) emitted = progress(state.done, plan.tiles());
  return AgreeWithRankZero(exec, emitted);
}

}  // namespace kinora
