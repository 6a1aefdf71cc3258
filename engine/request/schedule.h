// Noise levels of the denoising loop (docs/model.md "Schedule"; ltx_core/components/schedulers.py).
#ifndef KINORA_ENGINE_REQUEST_SCHEDULE_H_
#define KINORA_ENGINE_REQUEST_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace kinora {

// Shift and stretch of the dev schedule; the defaults are those of all released models.
struct DevSchedule {
  double base_shift = 0.95;
  double max_shift = 2.05;
  int64_t base_tokens = 1024;
  int64_t max_tokens = 4096;
  double terminal = 0.1;  // last noise level before 0
  bool operator==(const DevSchedule&) const = default;
};

// Returns steps + 1 levels, the last 0, shifted for `tokens` latent tokens. steps >= 1. The levels are NaN if the shift
// is so large that float32 rounds all of them to 1.
std::vector<float> DevSigmas(const DevSchedule& schedule, int steps, int64_t tokens);

// The levels that distilled models were trained for: eight steps.
std::vector<float> DistilledSigmas();

// The levels of the second of two stages: the last four distilled ones.
std::vector<float> RefiningSigmas();

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_SCHEDULE_H_
