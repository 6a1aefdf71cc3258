#include "server/worker/speed.h"

#include <algorithm>
#include <vector>

namespace kinora {
namespace {

constexpr size_t kRunsKept = 20;

}  // namespace

void Speed::Rate::Add(double flops, double seconds) {
  if (flops <= 0 || seconds <= 0) return;
  rates_.push_back(flops / seconds);
  if (rates_.size() > kRunsKept) rates_.pop_front();
}

double Speed::Rate::Seconds(double flops) const {
  if (rates_.empty()) return 0;
  std::vector<double> sorted(rates_.begin(), rates_.end());
  const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return flops / *middle;
}

void Speed::Observe(const RequestCost& cost, double denoise_seconds, double other_seconds) {
  absl::MutexLock lock(&mu_);
  denoise_.Add(cost.denoise_flops, denoise_seconds);
  other_.Add(cost.flops - cost.denoise_flops, other_seconds);
}

double Speed::DenoiseSeconds(const RequestCost& cost) const {
  absl::MutexLock lock(&mu_);
  return denoise_.Seconds(cost.denoise_flops);
}

double Speed::Seconds(const RequestCost& cost) const {
  absl::MutexLock lock(&mu_);
  return denoise_.Seconds(cost.denoise_flops) + other_.Seconds(cost.flops - cost.denoise_flops);
}

}  // namespace kinora
