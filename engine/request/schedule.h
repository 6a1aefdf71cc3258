// Noise levels of the denoising loop (docs/model.md "Schedule"; ltx_core/components/schedulers.py).
#ifndef KINORA_ENGINE_REQUEST_SCHEDULE_H_
#define KINORA_ENGINE_REQUEST_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace kinora {

// Shift and stretch of the dev schedule; the defaults are those of every released model.
struct DevSchedule {
  double base_shift = 0.95;
  double max_shift = 2.05;
  int64_t base_tokens = 1024;
  int64_t max_tokens = 4096;
  double terminal = 0.1;  // last noise level before 0
  bool operator==(const DevSchedule&) const = default;
};

// steps + 1 levels, the last 0, shifted for `tokens` latent tokens. steps >= 1. NaN where the shift is beyond
// float32, so that no level differs from 1.
std::vector<float> DevSigmas(const DevSchedule& schedule, int steps, int64_t tokens);

// What distilled models were trained for: eight steps.
std::vector<float> DistilledSigmas();

// Of the second of two stages: the last of the distilled ones.
std::vector<float> RefiningSigmas();

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_SCHEDULE_H_
