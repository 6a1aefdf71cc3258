#include "server/worker/remaining_time.h"

#include <algorithm>

namespace kinora {
namespace {

// The expectation weighs as much as a tenth of a run at the expected pace, so that a slow start does not multiply the
// estimate of a long run.
constexpr double kPrior = 0.1;
// Without an expectation, the remaining time is reported from this fraction on.
constexpr double kLeastFraction = 0.02;

}  // namespace

RemainingTime::RemainingTime(const RunPlan& plan, absl::FunctionRef<double(Stage)> expected, const Clock& steady)
    : steady_(steady), last_(steady.Now()) {
  for (const StagePlan& stage : plan.stages) shares_.push_back({stage.stage(), expected(stage.stage())});
  constexpr Stage kLast{StageKind::kFinalize};
  shares_.push_back({kLast, expected(kLast)});
  for (const Share& share : shares_) seconds_known_ = seconds_known_ || share.size > 0;
  for (size_t i = 0; i < plan.stages.size() && !seconds_known_; ++i) shares_[i].size = plan.stages[i].cost.flops;
  for (const Share& share : shares_) total_ += share.size;
}

RunEstimate RemainingTime::At(const Progress& progress) {
  const absl::Time now = steady_.Now();
  if (in_plan_) elapsed_ += absl::ToDoubleSeconds(now - last_);
  last_ = now;
  const auto present =
      std::find_if(shares_.begin(), shares_.end(), [&](const Share& share) { return share.stage == progress.stage; });
  in_plan_ = present != shares_.end();
  if (in_plan_ && total_ > 0) {
    double done = progress.total_steps > 0 ? present->size * progress.step / progress.total_steps : 0;
    for (auto share = shares_.begin(); share != present; ++share) done += share->size;
    fraction_ = std::clamp(done / total_, fraction_, 1.0);
  }
  const double done = fraction_ * total_, left = total_ - done;
  if (seconds_known_) {
    const double prior = kPrior * total_;
    return {.fraction = fraction_, .remaining_seconds = left * (elapsed_ + prior) / (done + prior)};
  }
  return {.fraction = fraction_, .remaining_seconds = fraction_ > kLeastFraction ? elapsed_ * left / done : -1};
}

}  // namespace kinora
