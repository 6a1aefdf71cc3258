#include "engine/model/audio_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr float kNormEps = 1e-6f;  // PixelNorm's, not in any configuration
constexpr int kKernel = 3;
constexpr int kMidResNets = 2;  // block_1 and block_2

absl::StatusOr<Weight> LoadConv(WeightLoader& weights, std::string_view name, int64_t in, int64_t out,
                                int kernel = kKernel) {
  return weights.LoadConv(absl::StrCat(std::string(name), ".conv"), {.out = out, .in = in, .kernel = {kernel, kernel}});
}

// Causal in time (the height), centred in mel (the width), zeros outside. `skip`: rows of output left out in front.
ConvOptions CausalConvOptions(int skip = 0) {
  return {.height = {.kernel = kKernel, .before = kKernel - 1 - skip},
          .width = {.kernel = kKernel, .before = kKernel / 2, .after = kKernel / 2}};
}

}  // namespace

// Three buffers that change places; each holds the largest activation.
struct AudioDecoder::Scratch {
  Tensor x;  // the current activation
  Tensor normed, hidden;
  Shape shape;  // of x: [1, time, mel, channels]

  static Tensor As(const Tensor& buffer, const Shape& shape) { return buffer.Rows(0, shape.elements()).Reshape(shape); }
  Tensor X() const { return As(x, shape); }
  Shape WithChannels(int64_t channels) const { return {1, shape[1], shape[2], channels}; }
};

absl::StatusOr<AudioDecoder::ResNet> AudioDecoder::LoadResNet(WeightLoader weights, int64_t in, int64_t out) {
  ResNet resnet;
  KINORA_ASSIGN_OR_RETURN(resnet.conv1, LoadConv(weights, "conv1", in, out));
  KINORA_ASSIGN_OR_RETURN(resnet.conv2, LoadConv(weights, "conv2", out, out));
  if (in != out) {
    KINORA_ASSIGN_OR_RETURN(resnet.shortcut, LoadConv(weights, "nin_shortcut", in, out, /*kernel=*/1));
  }
  return resnet;
}

absl::Status AudioDecoder::LoadLevels(WeightLoader weights) {
  const int levels = static_cast<int>(config_.multipliers.size());
  int64_t width = config_.channels * config_.multipliers.back();
  levels_.resize(levels);
  for (int i = levels - 1; i >= 0; --i) {
    WeightLoader level = weights.Under(absl::StrCat("up.", i));
    const int64_t out = config_.channels * config_.multipliers[i];
    for (int64_t j = 0; j <= config_.resnets; ++j) {
      KINORA_ASSIGN_OR_RETURN(ResNet resnet, LoadResNet(level.Under(absl::StrCat("block.", j)), width, out));
      levels_[i].resnets.push_back(std::move(resnet));
      width = out;
    }
    if (i > 0) {
      KINORA_ASSIGN_OR_RETURN(levels_[i].upsample, LoadConv(level, "upsample.conv", width, width));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AudioDecoder> AudioDecoder::Load(WeightLoader weights, const AudioDecoderConfig& config) {
  if (!config.causal) {
    return absl::UnimplementedError("audio_vae: causality_axis: only \"height\" (causal in time) is supported");
  }
  AudioDecoder decoder;
  decoder.config_ = config;
  WeightLoader statistics = weights.Under("per_channel_statistics");
  KINORA_ASSIGN_OR_RETURN(decoder.mean_, statistics.LoadTensor("mean-of-means", {config.packed_width()}));
  KINORA_ASSIGN_OR_RETURN(decoder.std_, statistics.LoadTensor("std-of-means", {config.packed_width()}));

  WeightLoader layers = weights.Under("decoder");
  const int64_t first = config.channels * config.multipliers.back(),
                last = config.channels * config.multipliers.front();
  KINORA_ASSIGN_OR_RETURN(decoder.conv_in_, LoadConv(layers, "conv_in", config.latent_channels, first));
  for (int i = 1; i <= kMidResNets; ++i) {
    KINORA_ASSIGN_OR_RETURN(ResNet resnet, LoadResNet(layers.Under(absl::StrCat("mid.block_", i)), first, first));
    decoder.mid_.push_back(std::move(resnet));
  }
  KINORA_RETURN_IF_ERROR(decoder.LoadLevels(layers));
  KINORA_ASSIGN_OR_RETURN(decoder.conv_out_, LoadConv(layers, "conv_out", last, config.out_channels));
  return decoder;
}

int64_t AudioDecoder::LargestActivation(int64_t latent_rows) const {
  int64_t rows = latent_rows, bins = config_.latent_bins();
  int64_t width = config_.channels * config_.multipliers.back();
  int64_t largest = std::max(rows * bins * width, OutputShape(latent_rows).elements());
  for (int i = static_cast<int>(levels_.size()) - 1; i >= 0; --i) {
    const int64_t out = config_.channels * config_.multipliers[i];
    largest = std::max(largest, rows * bins * std::max(width, out));
    width = out;
    if (i == 0) break;
    largest = std::max(largest, 2 * rows * 2 * bins * width);  // repeated, before the convolution drops a row
    rows = 2 * rows - 1;
    bins *= 2;
  }
  return largest;
}

void AudioDecoder::Residual(Exec& exec, const ResNet& resnet, Scratch& s) const {
  const Shape out_shape = s.WithChannels(resnet.conv1.out());
  const Tensor x = s.X(), normed = Scratch::As(s.normed, s.shape), hidden = Scratch::As(s.hidden, out_shape);
  exec.ops.RmsNorm(x, /*weight=*/nullptr, kNormEps, Activation::kSilu, normed);
  exec.ops.Conv(normed, resnet.conv1, CausalConvOptions(), hidden);
  exec.ops.RmsNorm(hidden, /*weight=*/nullptr, kNormEps, Activation::kSilu, hidden);
  if (resnet.shortcut.has_value()) {
    exec.ops.Conv(x, *resnet.shortcut, {}, Scratch::As(s.normed, out_shape));
    std::swap(s.x, s.normed);
    s.shape = out_shape;
  }
  ConvOptions add = CausalConvOptions();
  add.accumulate = Accumulate::kAdd;
  exec.ops.Conv(hidden, resnet.conv2, add, s.X());
}

void AudioDecoder::Upsample(Exec& exec, const Weight& conv, Scratch& s) const {
  const Shape repeated = {1, 2 * s.shape[1], 2 * s.shape[2], s.shape[3]};
  const Shape kept = {1, repeated[1] - 1, repeated[2], conv.out()};
  exec.ops.RepeatNearest(s.X(), {.height = 2, .width = 2}, Scratch::As(s.normed, repeated));
  exec.ops.Conv(Scratch::As(s.normed, repeated), conv, CausalConvOptions(/*skip=*/1), Scratch::As(s.hidden, kept));
  std::swap(s.x, s.hidden);
  s.shape = kept;
}

void AudioDecoder::Forward(Exec& exec, const Tensor& latent, Tensor mel) const {
  const int64_t rows = latent.rows(), bins = config_.latent_bins(), channels = config_.latent_channels;
  KINORA_CHECK(latent.width() == config_.packed_width() && rows > 0) << latent.shape().ToString();
  KINORA_CHECK(mel.shape() == OutputShape(rows)) << mel.shape().ToString();
  ArenaScope temp(exec.arena);
  Tensor denormalised = temp.Alloc(exec.dtype, {1, rows, 1, latent.width()});
  Tensor unpacked = temp.Alloc(exec.dtype, {1, rows, bins, channels});
  const int64_t largest = LargestActivation(rows);
  Scratch s{.x = temp.Alloc(exec.dtype, {largest}),
            .normed = temp.Alloc(exec.dtype, {largest}),
            .hidden = temp.Alloc(exec.dtype, {largest}),
            .shape = {1, rows, bins, conv_in_.out()}};

  exec.ops.Affine(latent, std_.tensor(), mean_.tensor(), denormalised.As2D());
  exec.ops.DepthToSpace(denormalised, {.factor = {.width = static_cast<int>(bins)}, .channels_outer = true}, unpacked);
  Tap(exec, "denormalised", unpacked);
  exec.ops.Conv(unpacked, conv_in_, CausalConvOptions(), s.X());
  Tap(exec, "conv_in", s.X());
  for (const ResNet& resnet : mid_) Residual(exec, resnet, s);
  Tap(exec, "mid", s.X());
  for (int i = static_cast<int>(levels_.size()) - 1; i >= 0; --i) {
    for (const ResNet& resnet : levels_[i].resnets) Residual(exec, resnet, s);
    if (levels_[i].upsample.has_value()) Upsample(exec, *levels_[i].upsample, s);
    if (exec.taps != nullptr) Tap(exec, absl::StrCat("up.", i), s.X());
  }
  exec.ops.RmsNorm(s.X(), /*weight=*/nullptr, kNormEps, Activation::kSilu, s.X());
  const Tensor out = Scratch::As(s.hidden, s.WithChannels(config_.out_channels));
  exec.ops.Conv(s.X(), conv_out_, CausalConvOptions(), out);
  const int64_t positions = s.shape[1] * s.shape[2];
  for (int64_t c = 0; c < config_.out_channels; ++c) {  // channels last -> channels first
    exec.ops.stream().Copy(out.As2D().Columns(c, c + 1), mel.Rows(c, c + 1).Reshape({positions, 1}));
  }
}

}  // namespace kinora
