#include "engine/model/audio_encoder.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {

absl::Status AudioEncoder::LoadLevels(const WeightLoader& weights) {
  int64_t width = config_.vae.channels;
  for (size_t i = 0; i < config_.vae.multipliers.size(); ++i) {
    WeightLoader level = weights.Under(Cat("down.", i));
    Level& loaded = levels_.emplace_back();
    const int64_t out = config_.vae.channels * config_.vae.multipliers[i];
    for (int64_t j = 0; j < config_.vae.resnets; ++j) {
      KINORA_ASSIGN_OR_RETURN(AudioResNet resnet, AudioResNet::Load(level.Under(Cat("block.", j)), width, out));
      loaded.resnets.push_back(std::move(resnet));
      width = out;
    }
    if (i + 1 == config_.vae.multipliers.size()) break;
    KINORA_ASSIGN_OR_RETURN(loaded.downsample, LoadAudioConv(level, "downsample", width, width));
  }
  return absl::OkStatus();
}

absl::StatusOr<AudioEncoder> AudioEncoder::Load(const WeightLoader& weights, const AudioEncoderConfig& config) {
  if (!config.unavailable.empty()) {
    return absl::UnimplementedError(Cat("this model's audio encoder is not available: ", config.unavailable));
  }
  AudioEncoder encoder;
  encoder.config_ = config;
  WeightLoader statistics = weights.Under("per_channel_statistics"), layers = weights.Under("encoder");
  KINORA_ASSIGN_OR_RETURN(encoder.normalizer_, LatentNormalizer::Load(statistics, config.vae.packed_width()));
  KINORA_ASSIGN_OR_RETURN(encoder.conv_in_, LoadAudioConv(layers, "conv_in", config.in_channels, config.vae.channels));
  KINORA_RETURN_IF_ERROR(encoder.LoadLevels(layers));
  const int64_t last = config.vae.channels * config.vae.multipliers.back();
  for (int i = 1; i <= kAudioMidResNets; ++i) {
    KINORA_ASSIGN_OR_RETURN(AudioResNet resnet, AudioResNet::Load(layers.Under(Cat("mid.block_", i)), last, last));
    encoder.mid_.push_back(std::move(resnet));
  }
  const int64_t means = config.vae.latent_channels;  // the variances after them are not used
  KINORA_ASSIGN_OR_RETURN(encoder.conv_out_, LoadAudioConv(layers, "conv_out", last, 2 * means, kAudioKernel, means));
  return encoder;
}

int64_t AudioEncoder::LatentRows(int64_t mel_rows) const {
  for (size_t i = 1; i < config_.vae.multipliers.size(); ++i) mel_rows = (mel_rows + 1) / 2;
  return mel_rows;
}

int64_t AudioEncoder::LargestActivation(int64_t mel_rows) const {
  int64_t rows = mel_rows, bins = config_.vae.mel_bins, width = config_.vae.channels;
  int64_t largest = rows * bins * std::max(width, config_.in_channels);
  for (const int64_t multiplier : config_.vae.multipliers) {
    const int64_t out = config_.vae.channels * multiplier;
    largest = std::max(largest, rows * bins * std::max(width, out));
    width = out;
    rows = (rows + 1) / 2;
    bins /= 2;
  }
  return largest;
}

void AudioEncoder::Downsample(Exec& exec, const Weight& conv, AudioScratch& s) const {
  const Shape halved = {1, (s.shape[1] + 1) / 2, s.shape[2] / 2, conv.out()};
  // Pads with zeros: two rows before, one bin after.
  const ConvOptions options{.height = {.kernel = kAudioKernel, .stride = 2, .before = 2},
                            .width = {.kernel = kAudioKernel, .stride = 2, .after = 1}};
  exec.ops.Conv(s.X(), conv, options, AudioScratch::As(s.hidden, halved));
  std::swap(s.x, s.hidden);
  s.shape = halved;
}

void AudioEncoder::Forward(Exec& exec, const Tensor& mel, Tensor latent) const {
  const int64_t rows = mel.dim(1), bins = config_.vae.mel_bins, channels = config_.in_channels;
  KINORA_CHECK(mel.shape() == Shape({channels, rows, bins}) && rows > 0) << mel.shape().ToString();
  KINORA_CHECK(latent.shape() == Shape({LatentRows(rows), config_.vae.packed_width()})) << latent.shape().ToString();
  ArenaScope temp(exec.arena);
  const Tensor pixels = temp.Alloc(DType::kF32, {1, rows, bins, channels});
  AudioScratch s(temp, exec.dtype, LargestActivation(rows), {1, rows, bins, config_.vae.channels});
  for (int64_t c = 0; c < channels; ++c) {  // channels first -> channels last
    exec.ops.stream().Copy(mel.Rows(c, c + 1).Reshape({rows * bins, 1}), pixels.As2D().Columns(c, c + 1));
  }
  exec.ops.Conv(pixels, conv_in_, AudioConvOptions(), s.X());
  Tap(exec, "conv_in", s.X());
  for (size_t i = 0; i < levels_.size(); ++i) {
    for (const AudioResNet& resnet : levels_[i].resnets) resnet.Forward(exec, s);
    if (levels_[i].downsample.has_value()) Downsample(exec, *levels_[i].downsample, s);
    if (exec.taps != nullptr) Tap(exec, Cat("down.", i), s.X());
  }
  for (const AudioResNet& resnet : mid_) resnet.Forward(exec, s);
  Tap(exec, "mid", s.X());
  exec.ops.RmsNorm(s.X(), /*weight=*/nullptr, kAudioNormEps, Activation::kSilu, s.X());
  const Tensor means = temp.Alloc(DType::kF32, s.WithChannels(config_.vae.latent_channels));
  exec.ops.Conv(s.X(), conv_out_, AudioConvOptions(), means);
  const int columns = static_cast<int>(config_.vae.latent_bins());
  exec.ops.SpaceToDepth(means, {.factor = {.width = columns}},
                        latent.Reshape({1, latent.dim(0), 1, config_.vae.packed_width()}));
  normalizer_.Forward(exec, latent, latent);
}

}  // namespace kinora
