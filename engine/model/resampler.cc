#include "engine/model/resampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "engine/base/check.h"

namespace kinora {
namespace {

constexpr double kZeroCrossings = 6, kRolloff = 0.99;

// Output sample to·n + phase is Σ_i taps[i] · sound[from·n + first + i]. The rates have no common divisor.
struct Phase {
  int64_t first = 0;
  std::vector<float> taps;
};

Phase MakePhase(int64_t phase, int64_t from, int64_t to) {
  const double cutoff = kRolloff * static_cast<double>(std::min(from, to));
  const auto reach = static_cast<int64_t>(std::ceil(kZeroCrossings * static_cast<double>(from) / cutoff));
  // The reference's filter covers [−reach, reach + from) for every phase; beyond the window it is zero.
  const int64_t center = phase * from / to;
  Phase result{.first = std::max(-reach, center - reach - 1), .taps = {}};
  const int64_t end = std::min(reach + from, center + reach + 2);
  // In float32 and in this order throughout, like the reference, whose phases are off by up to 1e-5.
  constexpr auto kPi = std::numbers::pi_v<float>;
  constexpr auto kCrossings = static_cast<float>(kZeroCrossings);
  const auto scale = static_cast<float>(cutoff / static_cast<double>(from));
  const float shift = static_cast<float>(-phase) / static_cast<float>(to);
  for (int64_t i = result.first; i < end; ++i) {
    const float time = (shift + static_cast<float>(i) / static_cast<float>(from)) * static_cast<float>(cutoff);
    const float within = std::clamp(time, -kCrossings, kCrossings);
    const float edge = std::cos(within * kPi / kCrossings / 2), angle = within * kPi;
    const float sinc = angle == 0 ? 1.0f : std::sin(angle) / angle;
    result.taps.push_back(sinc * (edge * edge * scale));
  }
  return result;
}

}  // namespace

int64_t ResampledLength(int64_t samples, int64_t from, int64_t to) {
  const int64_t common = std::gcd(from, to);
  return (to / common * samples + from / common - 1) / (from / common);
}

std::vector<float> Resample(absl::Span<const float> sound, int64_t from, int64_t to) {
  KINORA_CHECK(from > 0 && from <= 1 << 20 && to > 0 && to <= 1 << 20) << from << " Hz to " << to << " Hz";
  if (from == to) return {sound.begin(), sound.end()};
  const auto samples = static_cast<int64_t>(sound.size());
  std::vector<float> out(ResampledLength(samples, from, to));
  const int64_t common = std::gcd(from, to);
  from /= common;
  to /= common;
  for (int64_t phase = 0; phase < std::min<int64_t>(to, static_cast<int64_t>(out.size())); ++phase) {
    const Phase filter = MakePhase(phase, from, to);
    for (int64_t at = phase, first = filter.first; at < static_cast<int64_t>(out.size()); at += to, first += from) {
      const int64_t begin = std::max<int64_t>(0, -first);
      const int64_t end = std::min<int64_t>(static_cast<int64_t>(filter.taps.size()), samples - first);
      double sum = 0;
      for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(filter.taps[i]) * sound[first + i];
      out[at] = static_cast<float>(sum);
    }
  }
  return out;
}

}  // namespace kinora
