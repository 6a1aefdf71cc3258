#include "server/worker/speed.h"

#include <cmath>

namespace kinora {
namespace {

constexpr size_t kRunsKept = 50;
// The weight of a run halves with every ten later runs, because machines and builds change.
constexpr double kHalfLife = 10;
// Low, because the warm-up's clips are small and not written to a file; they matter until there are real runs.
constexpr double kWarmUpWeight = 0.2;

StageSize SizeOf(const v1::StageSpeed& stage) {
  return {.flops = stage.flops(),
          .tokens = static_cast<double>(stage.tokens()),
          .launches = static_cast<double>(stage.launches())};
}

}  // namespace

v1::RunSpeed ToRunSpeed(const RunPlan& plan, const std::map<std::string, double>& stage_seconds) {
  v1::RunSpeed run;
  const auto add = [&](Stage of) -> v1::StageSpeed& {
    v1::StageSpeed& stage = *run.add_stages();
    stage.set_kind(std::string(Stage{of.kind}.name()));
    const auto seconds = stage_seconds.find(std::string(of.name()));
    if (seconds != stage_seconds.end()) stage.set_seconds(seconds->second);
    return stage;
  };
  int64_t decoded = 0;
  for (const StagePlan& planned : plan.stages) {
    v1::StageSpeed& stage = add(planned.stage());
    stage.set_flops(planned.cost.flops);
    stage.set_tokens(planned.tokens);
    stage.set_launches(planned.cost.launches);
    if (planned.kind == StageKind::kDecodeVideo) decoded += planned.tokens;
  }
  v1::StageSpeed& finalize = add({StageKind::kFinalize});
  finalize.set_tokens(decoded);  // the size of the file is about proportional to it
  finalize.set_launches(1);
  return run;
}

void Speed::ObserveWarmUp(const v1::RunSpeed& run) {
  absl::MutexLock lock(&mu_);
  warm_up_.push_back(run);
  Fit();
}

void Speed::Observe(const v1::RunSpeed& run) {
  absl::MutexLock lock(&mu_);
  runs_.push_back(run);
  Fit();
}

void Speed::Remember(const v1::SpeedHistory& past) {
  absl::MutexLock lock(&mu_);
  runs_.insert(runs_.begin(), past.runs().begin(), past.runs().end());
  Fit();
}

void Speed::Fit() {
  while (runs_.size() > kRunsKept) runs_.pop_front();
  std::map<std::string, std::vector<StageObservation>> observations;
  double flops = 0, seconds = 0;
  const auto add = [&](const v1::RunSpeed& run, double weight) {
    for (const v1::StageSpeed& stage : run.stages()) {
      if (!(stage.seconds() > 0)) continue;
      observations[stage.kind()].push_back({.size = SizeOf(stage), .seconds = stage.seconds(), .weight = weight});
      flops += weight * stage.flops();
      seconds += weight * stage.seconds();
    }
  };
  for (const v1::RunSpeed& run : warm_up_) add(run, kWarmUpWeight);
  for (size_t i = 0; i < runs_.size(); ++i) {
    add(runs_[i], std::exp2(-static_cast<double>(runs_.size() - 1 - i) / kHalfLife));
  }
  fits_.clear();
  for (const auto& [kind, seen] : observations) fits_.emplace(kind, StageFit(seen));
  seconds_per_flop_ = flops > 0 ? seconds / flops : 0;
}

double Speed::StageSeconds(const v1::StageSpeed& stage) const {
  const auto fit = fits_.find(stage.kind());
  return fit != fits_.end() ? fit->second.Seconds(SizeOf(stage)) : stage.flops() * seconds_per_flop_;
}

double Speed::Seconds(const v1::StageSpeed& stage) const {
  absl::MutexLock lock(&mu_);
  return StageSeconds(stage);
}

double Speed::Seconds(const v1::RunSpeed& plan) const {
  absl::MutexLock lock(&mu_);
  double sum = 0;
  for (const v1::StageSpeed& stage : plan.stages()) sum += StageSeconds(stage);
  return sum;
}

}  // namespace kinora
