#include "engine/pipeline/video_decode_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ops/dry_ops.h"

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

}  // namespace

struct VideoDecodeStage::Buffers {
  Tensor group;  // [longest span, H, W, 3] f32, the current group's sums; it begins at the group's first frame
  Tensor rgb8;   // [kFramesPerCall, H, W, 3]
};

absl::StatusOr<TilePlan> VideoDecodeStage::Plan(const Shape& latent) const {
  const LatentGrid grid = GridOf(decoder_.config(), latent);
  KINORA_RETURN_IF_ERROR(decoder_.CheckLatent({grid.frames, grid.height, grid.width, latent[1]}));
  return PlanTiles(grid, tiling_.value_or(Tiling::For(grid)));
}

absl::StatusOr<VideoDecodeStage::Memory> VideoDecodeStage::MemoryFor(DType dtype, const Shape& latent) const {
  DryOps ops;
  Arena device = Arena::Dry(), host = Arena::Dry();
  const auto mesh = Mesh::Single();
  Exec exec{.ops = ops, .arena = device, .mesh = *mesh, .dtype = dtype};
  const auto nothing = [](auto&&...) { return absl::OkStatus(); };
  KINORA_RETURN_IF_ERROR(Run(exec, host, Tensor(DType::kF32, latent, nullptr), nothing, nothing));
  return Memory{.device = device.peak(), .host = host.peak()};
}

absl::Status VideoDecodeStage::DecodeTile(Exec& exec, Arena& host, const Tensor& latent, const TileIndex& tile,
                                          Tensor group) const {
  const Shape shape = {tile.time.end - tile.time.begin, tile.height.end - tile.height.begin,
                       tile.width.end - tile.width.begin, latent.dim(1)};
  ArenaScope device_scope(exec.arena);
  ArenaScope host_scope(host);
  const Tensor gathered = host_scope.Alloc(DType::kF32, shape);
  const Tensor z = device_scope.Alloc(DType::kF32, shape);
  const Tensor pixels = device_scope.Alloc(DType::kF32, decoder_.OutputShape(shape));
  const Tensor frame = host_scope.Alloc(DType::kF32, {pixels.dim(1), pixels.dim(2), pixels.dim(3)});
  if (!exec.ops.dry()) GatherTile(latent, tile.time.begin, tile.height.begin, tile.width.begin, gathered);
  exec.ops.stream().Copy(gathered, z);
  decoder_.Forward(exec, z, pixels);
  for (int64_t f = 0; f < pixels.dim(0); ++f) {
    exec.ops.stream().Copy(pixels.Rows(f, f + 1).Reshape(frame.shape()), frame);
    KINORA_RETURN_IF_ERROR(exec.ops.stream().Synchronize());
    if (exec.ops.dry()) continue;
    AddFrame(frame, tile.time.mask[f], tile.height, tile.width,
             group.Rows(f, f + 1).Reshape({group.dim(1), group.dim(2), group.dim(3)}));
  }
  return absl::OkStatus();
}

absl::Status VideoDecodeStage::EmitReady(const TilePlan& plan, size_t t, const Buffers& buffers, Emit emit) {
  const int64_t begin = plan.time[t].out_begin, end = plan.ReadyUntil(t);
  const Shape frame_shape = {buffers.group.dim(1), buffers.group.dim(2), buffers.group.dim(3)};
  for (int64_t first = begin; first < end; first += kFramesPerCall) {
    const int64_t count = std::min(kFramesPerCall, end - first);
    const Tensor rgb = buffers.group.Rows(first - begin, first - begin + count);
    const Tensor rgb8 = buffers.rgb8.Rows(0, count);
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

absl::Status VideoDecodeStage::Run(Exec& exec, Arena& host, const Tensor& latent, Emit emit, Progress progress) const {
  KINORA_ASSIGN_OR_RETURN(const TilePlan plan, Plan(latent.shape()));
  int64_t longest = 0;
  for (const AxisTile& time : plan.time) longest = std::max(longest, time.out_end - time.out_begin);
  const int64_t height = plan.grid.out_height(), width = plan.grid.out_width();
  const int64_t colours = decoder_.config().out_channels;
  ArenaScope scope(host);
  const Buffers buffers{.group = scope.Alloc(DType::kF32, {longest, height, width, colours}),
                        .rgb8 = scope.Alloc(DType::kU8, {kFramesPerCall, height, width, colours})};
  const int64_t frame_bytes = height * width * colours * DTypeSize(DType::kF32);
  const auto bytes_at = [&](int64_t frame) { return static_cast<char*>(buffers.group.raw()) + frame * frame_bytes; };
  int64_t done = 0, carried = 0;  // frames at the buffer's start that the previous group began
  for (size_t t = 0; t < plan.time.size(); ++t) {
    const AxisTile& time = plan.time[t];
    const int64_t span = time.out_end - time.out_begin;
    if (!exec.ops.dry()) std::memset(bytes_at(carried), 0, (span - carried) * frame_bytes);
    for (const AxisTile& rows : plan.height) {
      for (const AxisTile& columns : plan.width) {
        KINORA_RETURN_IF_ERROR(progress(done++, plan.tiles()));
        KINORA_RETURN_IF_ERROR(DecodeTile(exec, host, latent, {time, rows, columns}, buffers.group));
      }
    }
    const int64_t ready = plan.ReadyUntil(t) - time.out_begin;
    carried = span - ready;
    if (exec.ops.dry()) continue;
    KINORA_RETURN_IF_ERROR(EmitReady(plan, t, buffers, emit));
    std::memmove(bytes_at(0), bytes_at(ready), carried * frame_bytes);
  }
  return progress(done, plan.tiles());
}

}  // namespace kinora
