#include "engine/model/diffusion_video_decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr int64_t kTimestepChannels = 256;
constexpr float kEps = 1e-6f;
constexpr int64_t kChunkElements = int64_t{1} << 27;  // of the widest temporary of a run of frames

SpaceTime Factor(const DiffusionDecoderConfig::Extents& stride) {
  return {static_cast<int>(stride[0]), static_cast<int>(stride[1]), static_cast<int>(stride[2])};
}

// Calls run(first, count) for runs of frames whose temporaries, of so many elements per frame, stay small.
template <typename F>
void ForFrames(int64_t frames, int64_t elements_per_frame, F run) {
  const int64_t at_once = std::clamp<int64_t>(kChunkElements / elements_per_frame, 1, frames);
  for (int64_t first = 0; first < frames; first += at_once) run(first, std::min(at_once, frames - first));
}

// The rows [first, first + count) of dimension 0, with all dimensions.
Tensor Run(const Tensor& x, int64_t first, int64_t count) { return x.Rows(first, first + count); }

// Blocks of patch x patch pixels become channels, in the order (colour, column, row).
SpaceToDepthOptions Patches(int64_t patch) {
  const int side = static_cast<int>(patch);
  return {.factor = {.height = side, .width = side}, .width_before_height = true};
}

}  // namespace

absl::StatusOr<std::vector<NeighbourhoodBlock>> DiffusionVideoDecoder::LoadBlocks(
    const WeightLoader& weights, const DiffusionDecoderConfig& config, const DiffusionDecoderConfig::Stage& stage,
    int64_t context_width) {
  std::vector<NeighbourhoodBlock> blocks;
  for (int64_t i = 0; i < stage.blocks; ++i) {
    KINORA_ASSIGN_OR_RETURN(NeighbourhoodBlock block,
                            NeighbourhoodBlock::Load(weights.Under(absl::StrCat(i)), {.width = stage.width,
                                                                                      .head_width = config.head_width,
                                                                                      .window = stage.window,
                                                                                      .context_width = context_width}));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

absl::StatusOr<DiffusionVideoDecoder> DiffusionVideoDecoder::Load(WeightLoader weights,
                                                                  const VideoDecoderConfig& config,
                                                                  const Options& options) {
  DiffusionVideoDecoder decoder;
  decoder.config_ = config;
  decoder.options_ = options;
  const DiffusionDecoderConfig& diffusion = decoder.diffusion();
  const Shape channels = {config.latent_channels};
  KINORA_ASSIGN_OR_RETURN(decoder.mean_, weights.LoadTensor("per_channel_statistics.mean-of-means", channels));
  KINORA_ASSIGN_OR_RETURN(decoder.std_, weights.LoadTensor("per_channel_statistics.std-of-means", channels));
  WeightLoader own = weights.Under("decoder");
  KINORA_ASSIGN_OR_RETURN(decoder.conv_in_, own.LoadWeight({"conv_in"}, {.out = diffusion.stages.front().width,
                                                                         .in = config.latent_channels}));
  for (size_t i = 0; i < diffusion.stages.size(); ++i) {
    const DiffusionDecoderConfig::Stage& stage = diffusion.stages[i];
    const bool last = i + 1 == diffusion.stages.size();
    const int64_t next = last ? diffusion.context_width : diffusion.stages[i + 1].width;
    Stage loaded;
    KINORA_ASSIGN_OR_RETURN(
        loaded.blocks, LoadBlocks(own.Under(absl::StrCat("det_stages.", i)), diffusion, stage, /*context_width=*/0));
    const ConvSpec proj{.out = next * Factor(stage.stride).product(),
                        .in = stage.width,
                        .kernel = {},
                        .order = {.factor = Factor(stage.stride)}};
    KINORA_ASSIGN_OR_RETURN(loaded.upsample, own.LoadConv(absl::StrCat("upsamples.", i, ".proj"), proj));
    decoder.stages_.push_back(std::move(loaded));
  }
  KINORA_RETURN_IF_ERROR(decoder.LoadDenoiser(own));
  return decoder;
}

absl::Status DiffusionVideoDecoder::LoadDenoiser(WeightLoader& weights) {
  const DiffusionDecoderConfig& d = diffusion();
  const int64_t width = d.denoiser.width, patches = config_.conv_out_channels();
  KINORA_ASSIGN_OR_RETURN(conv_in_x_t_, weights.LoadWeight({"conv_in_x_t"}, {.out = width, .in = patches}));
  WeightLoader timestep = weights.Under("t_embedder.mlp");
  KINORA_ASSIGN_OR_RETURN(timestep_in_, timestep.LoadWeight({"0"}, {.out = d.timestep_width, .in = kTimestepChannels}));
  KINORA_ASSIGN_OR_RETURN(timestep_hidden_,
                          timestep.LoadWeight({"2"}, {.out = d.timestep_width, .in = d.timestep_width}));
  KINORA_ASSIGN_OR_RETURN(
      modulation_, weights.LoadWeight({"shared_adaln.proj"},
                                      {.out = NeighbourhoodBlock::kTimestepSlots * width, .in = d.timestep_width}));
  KINORA_ASSIGN_OR_RETURN(denoiser_, LoadBlocks(weights.Under("diff_blocks"), d, d.denoiser, d.context_width));
  KINORA_ASSIGN_OR_RETURN(norm_out_, weights.LoadTensor("norm_out.weight", {width}));
  const int patch = static_cast<int>(config_.patch_size);
  const ConvSpec out{.out = patches,
                     .in = width,
                     .kernel = {},
                     .order = {.factor = {.height = patch, .width = patch}, .width_before_height = true}};
  KINORA_ASSIGN_OR_RETURN(conv_out_, weights.LoadConv("conv_out", out));
  return absl::OkStatus();
}

DiffusionVideoDecoder::Extents DiffusionVideoDecoder::PaddingOf(const Shape& latent) const {
  const Extents smallest = diffusion().SmallestLatent();
  Extents padding{};  // the time is padded at the end
  for (int axis : {1, 2}) padding[axis] = std::max<int64_t>(0, smallest[axis] - latent[axis]) / 2;
  return padding;
}

DiffusionVideoDecoder::Extents DiffusionVideoDecoder::CellsOf(const Shape& latent) const {
  const Extents smallest = diffusion().SmallestLatent();
  Shape x = {std::max(latent[0], smallest[0]), std::max(latent[1], smallest[1]), std::max(latent[2], smallest[2]), 1};
  for (size_t i = 0; i + 1 < stages_.size(); ++i) x = Upsampled(i, x, /*drop_first=*/true);
  return {x[0], x[1], x[2]};
}

// Doubling the time gives 2f frames, or 2f − 1 if the first one is dropped.
Shape DiffusionVideoDecoder::Upsampled(size_t stage, const Shape& x, bool drop_first) const {
  const Extents& stride = diffusion().stages[stage].stride;
  const int64_t dropped = drop_first && stride[0] == 2 ? 1 : 0;
  return {x[0] * stride[0] - dropped, x[1] * stride[1], x[2] * stride[2],
          stages_[stage].upsample.out() / Factor(stride).product()};
}

void DiffusionVideoDecoder::Upsample(Exec& exec, size_t stage, const Tensor& x, bool drop_first, int64_t first,
                                     Tensor out) const {
  const Weight& proj = stages_[stage].upsample;
  const SpaceTime factor = Factor(diffusion().stages[stage].stride);
  const int64_t skipped = first + (drop_first && factor.time == 2 ? 1 : 0);  // of the frames before any is dropped
  const int64_t begin = skipped / factor.time, end = (skipped + out.dim(0) + factor.time - 1) / factor.time;
  const int64_t plane = x.dim(1) * x.dim(2);
  // A run of whole frames of x gives whole blocks of frames; the ends of the first and of the last can be unwanted.
  ForFrames(end - begin, plane * proj.out(), [&](int64_t run, int64_t count) {
    ArenaScope scope(exec.arena);
    const int64_t from = begin + run;
    const Tensor channels = scope.Alloc(exec.dtype, {count, x.dim(1), x.dim(2), proj.out()});
    exec.ops.Matmul(Run(x, from, count).As2D(), proj, {}, channels.As2D());
    const bool drop = from * factor.time < skipped;
    const int64_t made = count * factor.time - (drop ? 1 : 0), at = std::max<int64_t>(0, from * factor.time - skipped);
    if (at + made <= out.dim(0)) {
      return exec.ops.DepthToSpace(channels, {.factor = factor, .drop_first = drop}, Run(out, at, made));
    }
    const Tensor whole = scope.Alloc(exec.dtype, {made, out.dim(1), out.dim(2), out.dim(3)});
    exec.ops.DepthToSpace(channels, {.factor = factor, .drop_first = drop}, whole);
    exec.ops.stream().Copy(Run(whole, 0, out.dim(0) - at), Run(out, at, out.dim(0) - at));
  });
}

absl::Status DiffusionVideoDecoder::RunBlocks(Exec& exec, size_t stage, GoOn go_on, Tensor x) const {
  ArenaScope scope(exec.arena);
  const AxialRope rope(exec, scope, {.frames = x.dim(0), .height = x.dim(1), .width = x.dim(2)},
                       diffusion().head_width);
  for (const NeighbourhoodBlock& block : stages_[stage].blocks) {
    const auto no_context = [](int64_t, int64_t, const Tensor&) {};
    const NeighbourhoodBlock::Run run{.rope = rope,
                                      .norms = block.Norms(exec, scope, Tensor()),
                                      .slab_elements = options_.slab_elements,
                                      .context = no_context,
                                      .go_on = go_on};
    KINORA_RETURN_IF_ERROR(block.Forward(exec, run, x));
  }
  return absl::OkStatus();
}

// Returns the latent with its edges repeated where windows need more cells, and with the ghost frames.
Tensor DiffusionVideoDecoder::Padded(Exec& exec, const Tensor& latent) const {
  const Extents smallest = diffusion().SmallestLatent(), before = PaddingOf(latent.shape());
  const int64_t frames = std::max(latent.dim(0), smallest[0]) + diffusion().ghost_frames();
  const int64_t height = std::max(latent.dim(1), smallest[1]), width = std::max(latent.dim(2), smallest[2]);
  const Tensor padded = exec.arena.Alloc(DType::kF32, {frames, height, width, latent.dim(3)});
  const auto near = [](int64_t i, int64_t extent) { return std::clamp<int64_t>(i, 0, extent - 1); };
  std::vector<int32_t> cells;
  for (int64_t i = 0; i < frames * height * width && !exec.ops.dry(); ++i) {
    const int64_t f = near(i / width / height, latent.dim(0)), h = near(i / width % height - before[1], latent.dim(1));
    const int64_t w = near(i % width - before[2], latent.dim(2));
    cells.push_back(static_cast<int32_t>((f * latent.dim(1) + h) * latent.dim(2) + w));
  }
  ArenaScope scope(exec.arena);
  const Tensor numbers = scope.Alloc(DType::kI32, {padded.rows()});
  exec.ops.stream().CopyFromHost(cells.data(), numbers);
  exec.ops.GatherRows(latent.As2D(), numbers, 1.0f, padded.As2D());
  return padded;
}

absl::StatusOr<Tensor> DiffusionVideoDecoder::Features(Exec& exec, const Tensor& latent, GoOn go_on) const {
  const Extents cells = CellsOf(latent.shape());
  int64_t ghosts = diffusion().ghost_frames();
  for (size_t i = 0; i + 1 < stages_.size(); ++i) ghosts *= diffusion().stages[i].stride[0];
  const int64_t width = diffusion().stages.back().width;
  const Tensor features = exec.arena.Alloc(exec.dtype, {cells[0] + ghosts, cells[1], cells[2], width});
  ArenaScope scope(exec.arena);
  const Tensor padded = Padded(exec, latent);
  exec.ops.Affine(padded, std_, mean_, padded);
  Tensor x = scope.Alloc(exec.dtype, {padded.dim(0), padded.dim(1), padded.dim(2), conv_in_.out()});
  exec.ops.Matmul(padded.As2D(), conv_in_, {}, x.As2D());
  Tap(exec, "conv_in", x);
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    KINORA_RETURN_IF_ERROR(RunBlocks(exec, i, go_on, x));
    const bool last = i + 2 == stages_.size();
    const Tensor next = last ? features : scope.Alloc(exec.dtype, Upsampled(i, x.shape(), /*drop_first=*/true));
    Upsample(exec, i, x, /*drop_first=*/true, 0, next);
    Tap(exec, absl::StrCat("stage.", i), next);
    x = next;
  }
  return features;
}

// Frames that the denoiser makes of a tile.
int64_t DiffusionVideoDecoder::ContextFrames(const Tile& tile) const {
  const Shape cells = {tile.end[0] - tile.begin[0], 1, 1, 1};
  const int64_t frames = Upsampled(stages_.size() - 1, cells, tile.first())[0];
  return tile.last ? std::max(frames, diffusion().denoiser.window[0]) : frames;
}

Shape DiffusionVideoDecoder::OutputShape(const Tile& tile) const {
  const Shape cells = {tile.end[0] - tile.begin[0], tile.end[1] - tile.begin[1], tile.end[2] - tile.begin[2], 1};
  const Shape context = Upsampled(stages_.size() - 1, cells, tile.first());
  const int64_t patch = config_.patch_size;
  return {context[0], context[1] * patch, context[2] * patch, config_.out_channels};
}

Shape DiffusionVideoDecoder::CanvasOf(const Tile& tile) const {
  const Shape out = OutputShape(tile);
  return {out[3], ContextFrames(tile), out[1], out[2]};
}

// Returns the last stage's result before its upsampling, without ghost frames that nothing reads, in exec.arena.
absl::StatusOr<Tensor> DiffusionVideoDecoder::Context(Exec& exec, const Tensor& features, const Tile& tile,
                                                      GoOn go_on) const {
  const int64_t frames = (tile.last ? features.dim(0) : tile.end[0]) - tile.begin[0];
  const int64_t height = tile.end[1] - tile.begin[1], width = tile.end[2] - tile.begin[2];
  const Tensor x = exec.arena.Alloc(exec.dtype, {frames, height, width, features.dim(3)});
  const int64_t row_width = width * features.dim(3);
  const Tensor lines = features.Reshape({features.dim(0) * features.dim(1), features.dim(2) * features.dim(3)});
  for (int64_t f = 0; f < frames; ++f) {
    const int64_t line = (tile.begin[0] + f) * features.dim(1) + tile.begin[1];
    const Tensor from =
        lines.Rows(line, line + height).Columns(tile.begin[2] * features.dim(3), tile.end[2] * features.dim(3));
    exec.ops.stream().Copy(from, Run(x, f, 1).Reshape({height, row_width}));
  }
  KINORA_RETURN_IF_ERROR(RunBlocks(exec, stages_.size() - 1, go_on, x));
  return x;
}

// The denoiser's work on one tile.
class DiffusionVideoDecoder::Denoiser {
 public:
  Denoiser(const DiffusionVideoDecoder& decoder, Exec& exec, const Tensor& context, const Tile& tile, ArenaScope& scope)
      : decoder_(decoder), exec_(exec), context_(context), tile_(tile), canvas_(decoder.CanvasOf(tile)) {
    const int64_t patch = decoder.config_.patch_size, width = decoder.diffusion().denoiser.width;
    x_ = scope.Alloc(exec.dtype, {canvas_[1], canvas_[2] / patch, canvas_[3] / patch, width});
    modulation_ = scope.Alloc(DType::kF32, {NeighbourhoodBlock::kTimestepSlots, width});
  }

  // Runs the blocks at noise level t. Call Begin before and End after it.
  absl::Status Predict(double t, GoOn go_on) {
    ArenaScope scope(exec_.arena);
    Tap(exec_, "conv_in_x_t", x_);
    Modulate(t);
    const int64_t margin = decoder_.options_.border == DecoderBorder::kRepeat ? decoder_.denoiser_.front().margin() : 0;
    const AxialRope rope(
        exec_, scope,
        {.frames = x_.dim(0), .height = x_.dim(1), .width = x_.dim(2) + 2 * margin, .first_column = -margin},
        decoder_.diffusion().head_width);
    const size_t last = decoder_.stages_.size() - 1;
    const auto context = [&](int64_t first, int64_t, const Tensor& out) {
      decoder_.Upsample(exec_, last, context_, tile_.first(), first, out);
    };
    for (size_t i = 0; i < decoder_.denoiser_.size(); ++i) {
      ArenaScope block_scope(exec_.arena);
      const NeighbourhoodBlock& block = decoder_.denoiser_[i];
      const NeighbourhoodBlock::Run run{.rope = rope,
                                        .norms = block.Norms(exec_, block_scope, modulation_),
                                        .border = decoder_.options_.border,
                                        .slab_elements = decoder_.options_.slab_elements,
                                        .context = context,
                                        .go_on = go_on};
      KINORA_RETURN_IF_ERROR(block.Forward(exec_, run, x_));
      Tap(exec_, absl::StrCat("block.", i), x_);
    }
    return absl::OkStatus();
  }

  // x = conv_in_x_t(patches). fill(first, count, to): writes frames' patches to `to` [count, height, width, channels]
  // f32.
  template <typename Fill>
  void Begin(Fill&& fill) {
    const int64_t patches = decoder_.conv_in_x_t_.in();
    ForFrames(canvas_[1], (canvas_[0] + 1) * canvas_[2] * canvas_[3], [&](int64_t first, int64_t count) {
      ArenaScope scope(exec_.arena);
      const Tensor filled = scope.Alloc(DType::kF32, {count, x_.dim(1), x_.dim(2), patches});
      fill(first, count, filled);
      exec_.ops.Matmul(filled.As2D(), decoder_.conv_in_x_t_, {}, Run(x_, first, count).As2D());
    });
  }

  // to = unpatchify(conv_out(norm_out(x))), the first frames of it. to: [frames, height, width, colours] f32.
  void End(const Tensor& to) {
    const int patch = static_cast<int>(decoder_.config_.patch_size);
    const int64_t plane = x_.dim(1) * x_.dim(2);
    ForFrames(to.dim(0), plane * (x_.dim(3) + decoder_.conv_out_.out()), [&](int64_t first, int64_t count) {
      ArenaScope scope(exec_.arena);
      const Tensor normed = scope.Alloc(exec_.dtype, {count * plane, x_.dim(3)});
      const Tensor patches = scope.Alloc(DType::kF32, {count, x_.dim(1), x_.dim(2), decoder_.conv_out_.out()});
      const Tensor weight = decoder_.norm_out_;
      exec_.ops.RmsNorm(Run(x_, first, count).As2D(), &weight, kEps, Activation::kNone, normed);
      exec_.ops.Matmul(normed, decoder_.conv_out_, {}, patches.As2D());
      exec_.ops.DepthToSpace(patches, {.factor = {.height = patch, .width = patch}}, Run(to, first, count));
    });
  }

 private:
  void Modulate(double t) {
    ArenaScope scope(exec_.arena);
    const auto level = static_cast<float>(decoder_.diffusion().timestep_scale * t);
    const Tensor time = scope.Alloc(DType::kF32, {1}), waves = scope.Alloc(DType::kF32, {1, kTimestepChannels});
    const Tensor hidden = scope.Alloc(DType::kF32, {1, decoder_.timestep_in_.out()});
    const Tensor embedded = scope.Alloc(DType::kF32, hidden.shape());
    exec_.ops.Fill(level, time);
    exec_.ops.TimestepEmbedding(time, waves);
    exec_.ops.Matmul(waves, decoder_.timestep_in_, {.activation = Activation::kSilu}, hidden);
    exec_.ops.Matmul(hidden, decoder_.timestep_hidden_, {}, embedded);
    exec_.ops.Activate(embedded, Activation::kSilu, hidden);
    exec_.ops.Matmul(hidden, decoder_.modulation_, {}, modulation_.Reshape({1, modulation_.elements()}));
    Tap(exec_, "modulation", modulation_);
  }

  const DiffusionVideoDecoder& decoder_;
  Exec& exec_;
  const Tensor context_;
  const Tile& tile_;
  const Shape canvas_;
  Tensor x_, modulation_;
};

// Uploads the noise of a canvas [colours, frames, height, width] plane by plane and turns it into patches.
class DiffusionVideoDecoder::Noise {
 public:
  Noise(Exec& exec, const HostNoise& noise, const Shape& canvas) : exec_(exec), noise_(noise), canvas_(canvas) {
    KINORA_CHECK(exec.ops.dry() || static_cast<int64_t>(noise.values.size()) == canvas.elements()) << canvas.ToString();
  }
  // Writes the Patches of frames to `to` [count, height / patch, width / patch, colours·patch²] f32.
  void operator()(int64_t first, int64_t count, int64_t patch, const Tensor& to) {
    for (int64_t c = 0; c < canvas_[0]; ++c) {
      ArenaScope scope(exec_.arena);
      const Tensor plane = scope.Alloc(DType::kF32, {count, canvas_[2], canvas_[3], 1});
      Upload(c, first, plane);
      exec_.ops.SpaceToDepth(plane, Patches(patch), to.Columns(c * patch * patch, (c + 1) * patch * patch));
    }
  }

 private:
  void Upload(int64_t colour, int64_t first, const Tensor& plane) {
    const int64_t begin = (colour * canvas_[1] + first) * canvas_[2] * canvas_[3];
    const float* const from = exec_.ops.dry() ? nullptr : noise_.values.data() + begin;
    if (noise_.pinned) {
      exec_.ops.stream().CopyFromPinned(from, plane);
    } else {
      exec_.ops.stream().CopyFromHost(from, plane);
    }
  }

  Exec& exec_;
  const HostNoise noise_;
  const Shape canvas_;
};

absl::Status DiffusionVideoDecoder::Decode(Exec& exec, const Tensor& features, const Tile& tile, const HostNoise& noise,
                                           GoOn go_on, Tensor out) const {
  ArenaScope scope(exec.arena);
  KINORA_ASSIGN_OR_RETURN(const Tensor context, Context(exec, features, tile, go_on));
  Denoiser denoiser(*this, exec, context, tile, scope);
  const Shape canvas = CanvasOf(tile);
  Noise planes(exec, noise, canvas);
  const auto steps = static_cast<double>(diffusion().steps);
  if (steps == 1 && !diffusion().predicts_velocity) {
    denoiser.Begin(
        [&](int64_t first, int64_t count, const Tensor& to) { planes(first, count, config_.patch_size, to); });
    KINORA_RETURN_IF_ERROR(denoiser.Predict(1.0, go_on));
    denoiser.End(out);
    return absl::OkStatus();
  }
  const Tensor x_t = scope.Alloc(DType::kF32, {canvas[1], canvas[2], canvas[3], canvas[0]});
  const Tensor prediction = scope.Alloc(DType::kF32, x_t.shape());
  ForFrames(canvas[1], canvas[2] * canvas[3],
            [&](int64_t first, int64_t count) { planes(first, count, 1, Run(x_t, first, count)); });
  for (int64_t i = 0; i < diffusion().steps; ++i) {
    const double t = 1 - static_cast<double>(i) / steps, next = i + 1 == diffusion().steps ? 0 : t - 1 / steps;
    denoiser.Begin([&](int64_t first, int64_t count, const Tensor& to) {
      exec.ops.SpaceToDepth(Run(x_t, first, count), Patches(config_.patch_size), to);
    });
    KINORA_RETURN_IF_ERROR(denoiser.Predict(t, go_on));
    denoiser.End(prediction);
    // With velocities x_t += (next − t) v; with pictures v = (x_t − x0) / t.
    const double share = diffusion().predicts_velocity ? next - t : (t - next) / t;
    if (!diffusion().predicts_velocity) exec.ops.Scale(x_t, static_cast<float>(1 - share), x_t);
    exec.ops.Scale(prediction, static_cast<float>(share), prediction);
    exec.ops.Add(prediction, x_t);
  }
  exec.ops.stream().Copy(Run(x_t, 0, out.dim(0)), out);
  return absl::OkStatus();
}

}  // namespace kinora
