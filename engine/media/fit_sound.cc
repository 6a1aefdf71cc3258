#include "engine/media/fit_sound.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kinora {

std::vector<float> FitSound(const float* waveform, int64_t channels, int64_t samples, int64_t wanted, int sample_rate) {
  std::vector<float> fitted(channels * wanted);
  const int64_t kept = std::min(samples, wanted);
  const int64_t fade = samples == wanted ? 0 : std::min<int64_t>(kept, sample_rate / 100);
  for (int64_t c = 0; c < channels; ++c) {
    float* const out = std::copy_n(waveform + c * samples, kept, fitted.data() + c * wanted);
    for (int64_t i = 0; i < fade; ++i) {  // half a cosine, 0 at the last sample
      out[-1 - i] *= static_cast<float>(
          0.5 - 0.5 * std::cos(std::numbers::pi * static_cast<double>(i) / static_cast<double>(fade)));
    }
  }
  return fitted;
}

}  // namespace kinora
