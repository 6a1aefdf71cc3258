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

RemainingTime::RemainingTime(const RunPlan& plan, absl::FunctionRef<double(Stage)> expected, const Clock& steady,
                             const ResumePoint* from)
    : steady_(steady), last_(steady.Now()) {
  const auto add = [&](Stage stage) { shares_.push_back({.stage = stage, .size = expected(stage), .first_step = 0}); };
  for (const StagePlan& stage : plan.stages) add(stage.stage());
  add({StageKind::kFinalize});
  for (const Share& share : shares_) seconds_known_ = seconds_known_ || share.size > 0;
  for (size_t i = 0; i < plan.stages.size() && !seconds_known_; ++i) shares_[i].size = plan.stages[i].cost.flops;
  if (from != nullptr) PassOver(plan, *from);
  for (const Share& share : shares_) total_ += share.size;
  if (held_ > 0) fraction_ = held_ / (held_ + total_);
}

void RemainingTime::PassOver(const RunPlan& plan, const ResumePoint& from) {
  for (int64_t i = 0; i <= from.stage; ++i) {
    const StagePlan& stage = plan.stages[i];
    Share& share = shares_[i];
    double held = 0;
    if (i == from.stage) {
      share.first_step = from.step;
      held = share.size * static_cast<double>(from.step) / static_cast<double>(stage.steps);
    } else if (IsHeldLater(stage.kind)) {
      held = share.size;
    }
    share.size -= held;
    held_ += held;
  }
}

double RemainingTime::FractionAt(const Progress& progress) const {
  const auto present =
      std::find_if(shares_.begin(), shares_.end(), [&](const Share& share) { return share.stage == progress.stage; });
  if (present == shares_.end() || held_ + total_ <= 0) return fraction_;
  double done = held_;
  for (auto share = shares_.begin(); share != present; ++share) done += share->size;
  const int64_t steps = progress.total_steps - present->first_step, step = progress.step - present->first_step;
  if (steps > 0 && step > 0) done += present->size * static_cast<double>(step) / static_cast<double>(steps);
  return std::clamp(done / (held_ + total_), fraction_, 1.0);
}

RunEstimate RemainingTime::At(const Progress& progress) {
  const absl::Time now = steady_.Now();
  if (in_plan_) elapsed_ += absl::ToDoubleSeconds(now - last_);
  last_ = now;
  in_plan_ = std::any_of(shares_.begin(), shares_.end(), [&](const Share& s) { return s.stage == progress.stage; });
  fraction_ = FractionAt(progress);
  const double done = std::max(0.0, fraction_ * (held_ + total_) - held_), left = total_ - done;
  if (seconds_known_) {
    const double prior = kPrior * total_;
    return {.fraction = fraction_, .remaining_seconds = left > 0 ? left * (elapsed_ + prior) / (done + prior) : 0};
  }
  const bool shown = done > kLeastFraction * total_;
  return {.fraction = fraction_, .remaining_seconds = shown ? elapsed_ * left / done : -1};
}

}  // namespace kinora
