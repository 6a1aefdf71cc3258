#include "engine/model/audio_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
absl::Status AudioDecoder::LoadLevels(WeightLoader weights) {
  const int levels = static_cast<int>(config_.multipliers.size());
  int64_t width = config_.channels * config_.multipliers.back();
  levels_.resize(levels);
  for (int i = levels - 1; i >= 0; --i) {
    WeightLoader level = weights.Under(absl::StrCat("up.", i));
    const int64_t out = config_.channels * config_.multipliers[i];
    for (int64_t j = 0; j <= config_.resnets; ++j) {
      KINORA_ASSIGN_OR_RETURN(AudioResNet resnet,
                              AudioResNet::Load(level.Under(absl::StrCat("block.", j)), width, out));
      levels_[i].resnets.push_back(std::move(resnet));
      width = out;
    }
    if (i > 0) {
      KINORA_ASSIGN_OR_RETURN(levels_[i].upsample, LoadAudioConv(level, "upsample.conv", width, width));
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
  KINORA_ASSIGN_OR_RETURN(decoder.conv_in_, LoadAudioConv(layers, "conv_in", config.latent_channels, first));
  for (int i = 1; i <= kAudioMidResNets; ++i) {
    KINORA_ASSIGN_OR_RETURN(AudioResNet resnet,
                            AudioResNet::Load(layers.Under(absl::StrCat("mid.block_", i)), first, first));
    decoder.mid_.push_back(std::move(resnet));
  }
  KINORA_RETURN_IF_ERROR(decoder.LoadLevels(layers));
  KINORA_ASSIGN_OR_RETURN(decoder.conv_out_, LoadAudioConv(layers, "conv_out", last, config.out_channels));
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

void AudioDecoder::Upsample(Exec& exec, const Weight& conv, AudioScratch& s) const {
  const Shape repeated = {1, 2 * s.shape[1], 2 * s.shape[2], s.shape[3]};
  const Shape kept = {1, repeated[1] - 1, repeated[2], conv.out()};
  exec.ops.RepeatNearest(s.X(), {.height = 2, .width = 2}, AudioScratch::As(s.normed, repeated));
  exec.ops.Conv(AudioScratch::As(s.normed, repeated), conv, AudioConvOptions(/*skip=*/1),
                AudioScratch::As(s.hidden, kept));
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
  AudioScratch s(temp, exec.dtype, LargestActivation(rows), {1, rows, bins, conv_in_.out()});

  exec.ops.Affine(latent, std_.tensor(), mean_.tensor(), denormalised.As2D());
  exec.ops.DepthToSpace(denormalised, {.factor = {.width = static_cast<int>(bins)}, .channels_outer = true}, unpacked);
  Tap(exec, "denormalised", unpacked);
  exec.ops.Conv(unpacked, conv_in_, AudioConvOptions(), s.X());
  Tap(exec, "conv_in", s.X());
  for (const AudioResNet& resnet : mid_) resnet.Forward(exec, s);
  Tap(exec, "mid", s.X());
  for (int i = static_cast<int>(levels_.size()) - 1; i >= 0; --i) {
    for (const AudioResNet& resnet : levels_[i].resnets) resnet.Forward(exec, s);
    if (levels_[i].upsample.has_value()) Upsample(exec, *levels_[i].upsample, s);
    if (exec.taps != nullptr) Tap(exec, absl::StrCat("up.", i), s.X());
  }
  exec.ops.RmsNorm(s.X(), /*weight=*/nullptr, kAudioNormEps, Activation::kSilu, s.X());
  const Tensor out = AudioScratch::As(s.hidden, s.WithChannels(config_.out_channels));
  exec.ops.Conv(s.X(), conv_out_, AudioConvOptions(), out);
  const int64_t positions = s.shape[1] * s.shape[2];
  for (int64_t c = 0; c < config_.out_channels; ++c) {  // channels last -> channels first
    exec.ops.stream().Copy(out.As2D().Columns(c, c + 1), mel.Rows(c, c + 1).Reshape({positions, 1}));
  }
}

}  // namespace kinora
