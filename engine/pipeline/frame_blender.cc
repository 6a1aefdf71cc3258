#include "engine/pipeline/frame_blender.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

// Calls run(begin in the ring, offset, n) for each of the one or two ring sections that hold frames [first, first +
// count).
void ForEachRun(int64_t ring, int64_t first, int64_t count,
                absl::FunctionRef<void(int64_t begin, int64_t offset, int64_t n)> run) {
  for (int64_t offset = 0; offset < count;) {
    const int64_t begin = (first + offset) % ring, n = std::min(count - offset, ring - begin);
    run(begin, offset, n);
    offset += n;
  }
}

int64_t FramesOf(const AxisTile& time) { return time.out_end - time.out_begin; }
int64_t ReadyFrames(const TilePlan& plan, size_t t) { return plan.ReadyUntil(t) - plan.time[t].out_begin; }

}  // namespace

FrameBlender::FrameBlender(Exec& exec, const TilePlan& plan, const Options& options, ArenaScope& device,
                           ArenaScope& host)
    : exec_(exec), plan_(plan), options_(options) {
  KINORA_CHECK(!options.ahead || !options.floats) << "float frames are read one by one";
  int64_t longest = 0, most = 0;
  for (size_t t = 0; t < plan.time.size(); ++t) {
    longest = std::max(longest, FramesOf(plan.time[t]));
    most = std::max(most, ReadyFrames(plan, t));
  }
  const auto frames = [&](int64_t n) {
    return Shape{n, plan.grid.out_height(), plan.grid.out_width(), options.colours};
  };
  sums_ = device.Alloc(DType::kF32, frames(longest));
  rgb8_ = device.Alloc(DType::kU8, frames(kFramesPerCall));
  first_bad_ = device.Alloc(DType::kI32, {1});
  known_bad_ = host.Alloc(DType::kI32, {options.groups});
  const bool unified = exec.backend.traits().unified_memory && !options.ahead;
  frames_ = unified ? rgb8_ : host.Alloc(DType::kU8, frames(options.groups * most));
  if (options.floats && !exec.ops.dry()) floats_.resize(rgb8_.elements());
  const int32_t none = std::numeric_limits<int32_t>::max();
  exec.ops.stream().CopyFromHost(&none, first_bad_);
}

PixelWeights FrameBlender::UploadWeights(absl::Span<const float> frames, absl::Span<const float> rows,
                                         absl::Span<const float> columns, ArenaScope& scope) const {
  std::vector<float> values;  // column weights come first, for alignment
  values.reserve(columns.size() * options_.colours + rows.size() + frames.size());
  for (const float column : columns) values.insert(values.end(), options_.colours, column);
  const auto line = static_cast<int64_t>(values.size()), height = static_cast<int64_t>(rows.size());
  values.insert(values.end(), rows.begin(), rows.end());
  values.insert(values.end(), frames.begin(), frames.end());
  const auto all = static_cast<int64_t>(values.size());
  const Tensor table = scope.Alloc(DType::kF32, {all});
  exec_.ops.stream().CopyFromHost(values.data(), table);
  return {.frames = table.Rows(line + height, all),
          .rows = table.Rows(line, line + height),
          .columns = table.Rows(0, line)};
}

void FrameBlender::Begin(size_t t) {
  const AxisTile& time = plan_.time[t];
  const int64_t first = t == 0 ? 0 : plan_.time[t - 1].out_end;  // first frame that no earlier group contains
  ForEachRun(sums_.dim(0), first, time.out_end - first,
             [&](int64_t begin, int64_t, int64_t n) { exec_.ops.Fill(0.0f, sums_.Rows(begin, begin + n)); });
}

void FrameBlender::Add(const Tensor& pixels, const TileBlend& blend, int64_t first) {
  ForEachRun(sums_.dim(0), first, pixels.dim(0), [&](int64_t begin, int64_t offset, int64_t n) {
    TileBlend part = blend;
    part.weights.frames = blend.weights.frames.Rows(offset, offset + n);
    exec_.ops.AddTile(pixels.Rows(offset, offset + n), part, sums_.Rows(begin, begin + n));
  });
}

// to: [count, …] in host memory.
void FrameBlender::FinishFrames(int64_t first, int64_t count, const Tensor& to) {
  Stream& stream = exec_.ops.stream();
  ArenaScope scope(exec_.arena);
  PixelWeights weights;
  if (!plan_.complementary) {
    weights = UploadWeights(absl::MakeConstSpan(plan_.time_weight).subspan(first, count), plan_.height_weight,
                            plan_.width_weight, scope);
  }
  const int64_t frame = rgb8_.elements() / kFramesPerCall;
  ForEachRun(sums_.dim(0), first, count, [&](int64_t begin, int64_t offset, int64_t n) {
    const Tensor sums = sums_.Rows(begin, begin + n);
    Rgb8Options options{.weights = weights,
                        .rgb = options_.floats ? sums : Tensor(),
                        .first_frame = static_cast<int32_t>(first + offset),
                        .first_bad = first_bad_};
    if (!plan_.complementary) options.weights.frames = weights.frames.Rows(offset, offset + n);
    exec_.ops.FinishRgb8(sums, options, rgb8_.Rows(offset, offset + n));
    if (options_.floats) stream.CopyToHost(sums, floats_.data() + offset * frame);
  });
  stream.CopyToHost(rgb8_.Rows(0, count), to.raw());
}

Tensor FrameBlender::FramesOfGroup(size_t t) const {
  if (!options_.ahead) return frames_;
  const int64_t each = frames_.dim(0) / options_.groups, place = static_cast<int64_t>(t) % options_.groups;
  return frames_.Rows(place * each, (place + 1) * each);
}

Tensor FrameBlender::BadOfGroup(size_t t) const {
  const int64_t place = static_cast<int64_t>(t) % options_.groups;
  return known_bad_.Rows(place, place + 1);
}

void FrameBlender::Finish(size_t t) {
  if (!options_.ahead) return;
  const int64_t begin = plan_.time[t].out_begin, end = plan_.ReadyUntil(t);
  const Tensor to = FramesOfGroup(t);
  for (int64_t first = begin; first < end; first += kFramesPerCall) {
    const int64_t count = std::min(kFramesPerCall, end - first);
    FinishFrames(first, count, to.Rows(first - begin, first - begin + count));
  }
  exec_.ops.stream().CopyToHost(first_bad_, BadOfGroup(t).raw());
}

absl::Status FrameBlender::EmitGroup(size_t t, Emit emit) {
  const int64_t begin = plan_.time[t].out_begin, end = plan_.ReadyUntil(t);
  const Tensor group = FramesOfGroup(t), bad = BadOfGroup(t);
  for (int64_t first = begin; first < end; first += kFramesPerCall) {
    const int64_t count = std::min(kFramesPerCall, end - first), at = options_.ahead ? first - begin : 0;
    DecodedFrames frames{.first = first, .rgb = {}, .rgb8 = group.Rows(at, at + count)};
    if (!options_.ahead) {
      FinishFrames(first, count, frames.rgb8);
      exec_.ops.stream().CopyToHost(first_bad_, bad.raw());
      KINORA_RETURN_IF_ERROR(exec_.ops.stream().Synchronize());
    }
    if (exec_.ops.dry()) continue;
    if (const int32_t frame = *bad.data<int32_t>(); frame < end) {
      return absl::InternalError(absl::StrCat("frame ", frame, " holds pixels that are not numbers"));
    }
    if (options_.floats) frames.rgb = Tensor(DType::kF32, frames.rgb8.shape(), floats_.data());
    KINORA_RETURN_IF_ERROR(emit(frames));
  }
  return absl::OkStatus();
}

}  // namespace kinora
