#include "engine/model/vocoder.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr float kMelFloor = 1e-5f;

// torchaudio.functional.resample's defaults.
constexpr int kZeroCrossings = 6;
constexpr double kRolloff = 0.99;
constexpr int64_t kReach = 7;  // ceil(kZeroCrossings / kRolloff): input rows on each side

// Returns the resampler as a convolution [ratio·channels, 2·reach + 1, channels], zero between different channels.
// Output row ratio·n + p is Σ_t x[n − reach + t] · filter(phase p).
std::vector<float> ResamplerMatrix(int64_t ratio, int64_t channels) {
  const int64_t taps = 2 * kReach + 1;
  std::vector<float> matrix(ratio * channels * taps * channels);
  for (int64_t phase = 0; phase < ratio; ++phase) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t k = ratio * (2 * kReach - tap) + phase;  // index in the filter of 2·reach·ratio + 1 values
      if (k > 2 * kReach * ratio) continue;
      const double time = (static_cast<double>(k) / static_cast<double>(ratio) - kReach) * kRolloff;
      const double edge = std::clamp<double>(time, -kZeroCrossings, kZeroCrossings);
      const double window = std::pow(std::cos(edge * std::numbers::pi / kZeroCrossings / 2), 2);
      const double sinc = time == 0 ? 1 : std::sin(std::numbers::pi * time) / (std::numbers::pi * time);
      for (int64_t c = 0; c < channels; ++c) {
        matrix[((phase * channels + c) * taps + tap) * channels + c] = static_cast<float>(sinc * window * kRolloff);
      }
    }
  }
  return matrix;
}

absl::Status DoesNotFit(std::string_view field, int64_t value, std::string_view with, int64_t wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), ": ", value, " does not fit ", std::string(with), ", which needs ", wanted));
}

}  // namespace

absl::Status Vocoder::CheckConfig(const VocoderConfig& config, const AudioDecoderConfig& mel_source) {
  const GeneratorConfig& base = config.base;
  if (base.in_channels != mel_source.out_channels * mel_source.mel_bins) {
    return DoesNotFit("vocoder: input channels", base.in_channels, "audio_vae's channels and mel_bins",
                      mel_source.out_channels * mel_source.mel_bins);
  }
  if (!config.extension.has_value()) {
    if (config.output_rate == config.base_rate) return absl::OkStatus();
    return DoesNotFit("vocoder.output_sampling_rate", config.output_rate, "a vocoder without bandwidth extension",
                      config.base_rate);
  }
  const BandwidthExtensionConfig& extension = *config.extension;
  if (config.base_rate < 1 || config.output_rate < config.base_rate || config.output_rate % config.base_rate != 0) {
    return absl::InvalidArgumentError(absl::StrCat("vocoder.bwe.output_sampling_rate: ", config.output_rate,
                                                   " is not a multiple of input_sampling_rate ", config.base_rate));
  }
  if (extension.hop_length < 1 || extension.n_fft < extension.hop_length || extension.n_fft % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("vocoder.bwe.n_fft: ", extension.n_fft,
                                                   " must be even and at least hop_length, ", extension.hop_length));
  }
  int64_t factor = 1;
  for (const int64_t rate : extension.generator.upsample_rates) factor *= rate;
  const int64_t wanted = extension.hop_length * (config.output_rate / config.base_rate);
  if (factor != wanted)
    return DoesNotFit("vocoder.bwe.upsample_rates: product", factor, "hop_length and the rates", wanted);
  if (extension.generator.in_channels != base.out_channels * extension.mel_bins) {
    return DoesNotFit("vocoder.bwe: input channels", extension.generator.in_channels, "num_mels",
                      base.out_channels * extension.mel_bins);
  }
  if (extension.generator.out_channels != base.out_channels) {
    return DoesNotFit("vocoder.bwe: output channels", extension.generator.out_channels, "the base vocoder",
                      base.out_channels);
  }
  return absl::OkStatus();
}

absl::StatusOr<Vocoder::Extension> Vocoder::LoadExtension(const WeightLoader& weights, const VocoderConfig& config) {
  const BandwidthExtensionConfig& given = *config.extension;
  Extension e{.ratio = config.output_rate / config.base_rate,
              .n_fft = given.n_fft,
              .hop = given.hop_length,
              .mel_bins = given.mel_bins};
  KINORA_ASSIGN_OR_RETURN(e.generator, Generator::Load(weights.Under("bwe_generator"), given.generator, "vocoder.bwe"));

  const int64_t bins = given.n_fft / 2 + 1, channels = config.base.out_channels;
  WeightLoader mel = weights.Under("mel_stft");
  KINORA_ASSIGN_OR_RETURN(const HostParameter basis,
                          mel.LoadOnHost("stft_fn.forward_basis", {2 * bins, 1, given.n_fft}));
  KINORA_ASSIGN_OR_RETURN(const HostParameter filters, mel.LoadOnHost("mel_basis", {given.mel_bins, bins}));
  KINORA_ASSIGN_OR_RETURN(e.basis, mel.Prepare(basis, {2 * bins, given.n_fft}, DType::kF32));
  KINORA_ASSIGN_OR_RETURN(e.mel, mel.Prepare(filters, {given.mel_bins, bins}, DType::kF32));
  std::vector<float> matrix = ResamplerMatrix(e.ratio, channels);
  const Shape shape{e.ratio * channels, 2 * kReach + 1, channels};
  KINORA_ASSIGN_OR_RETURN(e.resampler, weights.backend().ops().PrepareWeight(Tensor(DType::kF32, shape, matrix.data()),
                                                                             /*bias=*/nullptr, DType::kF32));
  return e;
}

absl::StatusOr<Vocoder> Vocoder::Load(const WeightLoader& weights, const VocoderConfig& config,
                                      const AudioDecoderConfig& mel_source) {
  KINORA_RETURN_IF_ERROR(CheckConfig(config, mel_source));
  Vocoder vocoder;
  vocoder.config_ = config;
  const bool extended = config.extension.has_value();
  KINORA_ASSIGN_OR_RETURN(vocoder.base_,
                          Generator::Load(extended ? weights.Under("vocoder") : weights, config.base, "vocoder"));
  if (extended) {
    KINORA_ASSIGN_OR_RETURN(vocoder.extension_, LoadExtension(weights, config));
  }
  return vocoder;
}

int64_t Vocoder::Samples(int64_t mel_rows) const {
  return mel_rows * base_.factor() * (extension_.has_value() ? extension_->ratio : 1);
}

int64_t Vocoder::PaddedRows(int64_t low_samples) const {
  if (!extension_.has_value()) return low_samples;
  return (low_samples + extension_->hop - 1) / extension_->hop * extension_->hop;
}

void Vocoder::ComputeMel(Exec& exec, const Tensor& low, Tensor mel) const {
  const int64_t before = extension_->n_fft - extension_->hop, frames = low.rows() / extension_->hop;
  ArenaScope temp(exec.arena);
  Tensor signal = temp.Alloc(DType::kF32, {before + low.rows()});
  Tensor spectrum = temp.Alloc(DType::kF32, {frames, extension_->basis.out()});
  Tensor magnitude = temp.Alloc(DType::kF32, {frames, extension_->mel.in()});
  Tensor energy = temp.Alloc(DType::kF32, {frames, extension_->mel_bins});
  for (int64_t c = 0; c < low.width(); ++c) {
    if (before > 0) exec.ops.Fill(0, signal.Rows(0, before));
    exec.ops.stream().Copy(low.Columns(c, c + 1), signal.Rows(before, signal.dim(0)).Reshape({low.rows(), 1}));
    // Frame f is the n_fft samples from f·hop on, so rows overlap.
    const Tensor windows(DType::kF32, {frames, extension_->n_fft}, signal.raw(), /*row_stride=*/extension_->hop);
    exec.ops.Matmul(windows, extension_->basis, {}, spectrum);
    exec.ops.Magnitude(spectrum, magnitude);
    exec.ops.Matmul(magnitude, extension_->mel, {}, energy);
    exec.ops.Pointwise(energy, {.kind = PointwiseFunction::kLogFloor, .a = kMelFloor},
                       mel.Columns(c * extension_->mel_bins, (c + 1) * extension_->mel_bins));
  }
}

void Vocoder::Extend(Exec& exec, const Tensor& low, Tensor out) const {
  ArenaScope temp(exec.arena);
  const int64_t rows = low.rows(), channels = low.width();
  Tensor mel = temp.Alloc(DType::kF32, {rows / extension_->hop, channels * extension_->mel_bins});
  ComputeMel(exec, low, mel);
  Tap(exec, "bwe_mel", mel);
  Exec untapped = exec;  // this generator's taps would have the base generator's names
  untapped.taps = nullptr;
  extension_->generator.Forward(untapped, mel, out);
  Tap(exec, "residual", out);
  const ConvAxis axis{.kernel = 2 * kReach + 1, .before = kReach, .after = kReach, .padding = Padding::kReplicate};
  exec.ops.Conv(low.Reshape({1, rows, 1, channels}), extension_->resampler,
                {.height = axis, .accumulate = Accumulate::kAdd},
                out.Reshape({1, rows, 1, extension_->ratio * channels}));
  exec.ops.Pointwise(out, {.kind = PointwiseFunction::kClamp, .a = -1, .b = 1}, out);
}

void Vocoder::Forward(Exec& exec, const Tensor& mel, Tensor waveform) const {
  const int64_t rows = mel.dim(1), bins = mel.dim(2), samples = Samples(rows);
  KINORA_CHECK(mel.shape().rank() == 3 && mel.dim(0) * bins == base_.config().in_channels && rows > 0)
      << mel.shape().ToString();
  KINORA_CHECK(waveform.shape() == Shape({channels(), samples})) << waveform.shape().ToString();
  ArenaScope temp(exec.arena);
  const int64_t low_samples = rows * base_.factor(), padded = PaddedRows(low_samples);
  Tensor input = temp.Alloc(DType::kF32, {rows, mel.dim(0) * bins}),
         low = temp.Alloc(DType::kF32, {padded, channels()});
  for (int64_t c = 0; c < mel.dim(0); ++c) {
    exec.ops.stream().Copy(mel.Rows(c, c + 1).Reshape({rows, bins}), input.Columns(c * bins, (c + 1) * bins));
  }
  base_.Forward(exec, input, low.Rows(0, low_samples));
  if (padded > low_samples) exec.ops.Fill(0, low.Rows(low_samples, padded));

  Tensor wave = low;
  if (extension_.has_value()) {
    Tap(exec, "base", low.Rows(0, low_samples));
    wave = temp.Alloc(DType::kF32, {padded * extension_->ratio, channels()});
    Extend(exec, low, wave);
  }
  for (int64_t c = 0; c < channels(); ++c) {
    exec.ops.stream().Copy(wave.Rows(0, samples).Columns(c, c + 1), waveform.Rows(c, c + 1).Reshape({samples, 1}));
  }
}

}  // namespace kinora
