#include "engine/model/mel_front_end.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

constexpr float kMelFloor = 1e-5f;

// Slaney's scale: linear up to 1 kHz, logarithmic above.
constexpr double kLinearStep = 200.0 / 3, kBreakHz = 1000, kBreakMel = kBreakHz / kLinearStep;
const double kLogStep = std::log(6.4) / 27;

double MelOf(double hz) { return hz < kBreakHz ? hz / kLinearStep : kBreakMel + std::log(hz / kBreakHz) / kLogStep; }
// In float32, like the reference.
float HzOf(float mel) {
  if (mel < static_cast<float>(kBreakMel)) return static_cast<float>(kLinearStep) * mel;
  return static_cast<float>(kBreakHz) * std::exp(static_cast<float>(kLogStep) * (mel - static_cast<float>(kBreakMel)));
}

// The i-th of `count` equally spaced values from 0 to `last`, counted from the nearer end, as torch.linspace does.
float Spaced(float last, int64_t count, int64_t i) {
  const float step = last / static_cast<float>(count - 1);
  return i < count / 2 ? step * static_cast<float>(i) : last - step * static_cast<float>(count - 1 - i);
}

}  // namespace

std::vector<float> WindowedFourierBasis(int64_t n_fft) {
  const int64_t bins = n_fft / 2 + 1;
  std::vector<float> basis(2 * bins * n_fft);
  for (int64_t k = 0; k < bins; ++k) {
    for (int64_t n = 0; n < n_fft; ++n) {
      const double turn = 2 * std::numbers::pi / static_cast<double>(n_fft);
      const double window = 0.5 - 0.5 * std::cos(turn * static_cast<double>(n));
      const double angle = turn * static_cast<double>(k * n % n_fft);
      basis[k * n_fft + n] = static_cast<float>(window * std::cos(angle));
      basis[(bins + k) * n_fft + n] = static_cast<float>(-window * std::sin(angle));
    }
  }
  return basis;
}

std::vector<float> SlaneyFilters(int64_t mel_bins, int64_t n_fft, int64_t sample_rate) {
  const int64_t bins = n_fft / 2 + 1;
  const auto last_mel = static_cast<float>(MelOf(static_cast<double>(sample_rate) / 2));
  std::vector<float> edges(mel_bins + 2);
  for (int64_t i = 0; i < mel_bins + 2; ++i) edges[i] = HzOf(Spaced(last_mel, mel_bins + 2, i));
  const int64_t highest_hz = sample_rate / 2;  // an integer, like the reference's
  std::vector<float> filters(mel_bins * bins);
  for (int64_t m = 0; m < mel_bins; ++m) {
    const float low = edges[m], peak = edges[m + 1], high = edges[m + 2];
    for (int64_t k = 0; k < bins; ++k) {
      const float hz = Spaced(static_cast<float>(highest_hz), bins, k);
      const float up = (hz - low) / (peak - low), down = (high - hz) / (high - peak);
      filters[m * bins + k] = std::max(0.0f, std::min(up, down)) * (2.0f / (high - low));
    }
  }
  return filters;
}

absl::StatusOr<MelFrontEnd> MelFrontEnd::Make(Backend& backend, const AudioEncoderConfig& config) {
  MelFrontEnd front;
  front.config_ = config;
  const int64_t bins = config.n_fft / 2 + 1;
  std::vector<float> basis = WindowedFourierBasis(config.n_fft);
  std::vector<float> filters = SlaneyFilters(config.vae.mel_bins, config.n_fft, config.vae.sample_rate);
  const Tensor basis_view(DType::kF32, {2 * bins, config.n_fft, 1}, basis.data());
  const Tensor filters_view(DType::kF32, {config.vae.mel_bins, bins}, filters.data());
  KINORA_ASSIGN_OR_RETURN(front.basis_, backend.ops().PrepareWeight(basis_view, /*bias=*/nullptr, DType::kF32));
  KINORA_ASSIGN_OR_RETURN(front.filters_, backend.ops().PrepareWeight(filters_view, /*bias=*/nullptr, DType::kF32));
  return front;
}

absl::Status MelFrontEnd::CheckSound(int64_t samples) const {
  const int64_t least = config_.n_fft / 2 + 1;
  if (samples >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(samples, " samples at ", config_.vae.sample_rate, " Hz are too short: at least ", least, " are needed"));
}

void MelFrontEnd::Forward(Exec& exec, const Tensor& sound, Tensor mel) const {
  const int64_t samples = sound.width(), rows = Rows(samples);
  KINORA_CHECK(mel.shape() == Shape({sound.dim(0), rows, config_.vae.mel_bins})) << mel.shape().ToString();
  ArenaScope temp(exec.arena);
  const Tensor spectrum = temp.Alloc(DType::kF32, {rows, basis_.out()});
  const Tensor magnitude = temp.Alloc(DType::kF32, {rows, filters_.in()});
  const Tensor energy = temp.Alloc(DType::kF32, {rows, config_.vae.mel_bins});
  const int half = static_cast<int>(config_.n_fft / 2);
  const ConvAxis axis{.kernel = static_cast<int>(config_.n_fft),
                      .stride = static_cast<int>(config_.vae.hop_length),
                      .before = half,
                      .after = half,
                      .padding = Padding::kReflect};
  for (int64_t c = 0; c < sound.dim(0); ++c) {
    exec.ops.Conv(sound.Rows(c, c + 1).Reshape({1, samples, 1, 1}), basis_, {.height = axis},
                  spectrum.Reshape({1, rows, 1, basis_.out()}));
    exec.ops.Magnitude(spectrum, magnitude);
    exec.ops.Matmul(magnitude, filters_, {}, energy);
    exec.ops.Pointwise(energy, {.kind = PointwiseFunction::kLogFloor, .a = kMelFloor},
                       mel.Rows(c, c + 1).Reshape({rows, config_.vae.mel_bins}));
  }
}

}  // namespace kinora
