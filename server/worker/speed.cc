#include "server/worker/speed.h"

#include <algorithm>
#include <vector>

namespace kinora {
namespace {

constexpr size_t kRunsKept = 20;

double DenoiseFlops(const RunPlan& plan) {
  double sum = 0;
  for (const StagePlan& stage : plan.stages) sum += stage.kind == StageKind::kDenoise ? stage.cost.flops : 0;
  return sum;
}

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

void Speed::Observe(const RunPlan& plan, double denoise_seconds, double other_seconds) {
  absl::MutexLock lock(&mu_);
  denoise_.Add(DenoiseFlops(plan), denoise_seconds);
  other_.Add(plan.flops() - DenoiseFlops(plan), other_seconds);
}

double Speed::DenoiseSeconds(const RunPlan& plan) const {
  absl::MutexLock lock(&mu_);
  return denoise_.Seconds(DenoiseFlops(plan));
}

double Speed::Seconds(const RunPlan& plan) const {
  absl::MutexLock lock(&mu_);
  return denoise_.Seconds(DenoiseFlops(plan)) + other_.Seconds(plan.flops() - DenoiseFlops(plan));
}

}  // namespace kinora
