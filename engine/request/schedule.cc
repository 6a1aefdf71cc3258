#include "engine/request/schedule.h"

#include <cmath>

namespace kinora {

std::vector<float> DevSigmas(const DevSchedule& s, int steps, int64_t tokens) {
  const double slope = (s.max_shift - s.base_shift) / static_cast<double>(s.max_tokens - s.base_tokens);
  const double mu = static_cast<double>(tokens) * slope + s.base_shift - slope * static_cast<double>(s.base_tokens);
  const float shift = static_cast<float>(std::exp(mu));
  // float32 step by step, as the reference computes it.
  const float interval = -1.0f / static_cast<float>(steps);
  std::vector<float> sigmas(steps + 1, 0.0f);
  for (int i = 0; i < steps; ++i) {
    const float linear =
        i < (steps + 1) / 2 ? 1.0f + interval * static_cast<float>(i) : -interval * static_cast<float>(steps - i);
    sigmas[i] = 1.0f / (shift + (1.0f / linear - 1.0f)) * shift;  // reciprocal first, so sigmas[0] is not exactly 1
  }
  const float scale = (1.0f - sigmas[steps - 1]) / static_cast<float>(1.0 - s.terminal);
  if (steps == 1 && scale == 0) return {static_cast<float>(s.terminal), 0.0f};  // a level of exactly 1; the limit
  for (int i = 0; i < steps; ++i) sigmas[i] = 1.0f - (1.0f - sigmas[i]) / scale;
  return sigmas;
}

std::vector<float> DistilledSigmas() {
  return {1.0f, 0.99375f, 0.9875f, 0.98125f, 0.975f, 0.909375f, 0.725f, 0.421875f, 0.0f};
}

std::vector<float> RefiningSigmas() { return {0.909375f, 0.725f, 0.421875f, 0.0f}; }

}  // namespace kinora
