#include "engine/ops/cuda/cudnn_plans.h"

#include <iterator>
#include <utility>
#include <vector>

namespace kinora {

absl::StatusOr<CudnnPlans::Plan> CudnnPlans::For(const Shape& shape) {
  if (const auto at = by_shape_.find(shape); at != by_shape_.end()) {
    recent_.splice(recent_.begin(), recent_, at->second);
    return at->second->plan;
  }
  absl::StatusOr<Plan> plan = BuildOne(shape);  // held here, so that it is not dropped
  Insert(shape, plan);
  DropUnheld();
  return plan;
}

void CudnnPlans::Build(const std::set<Shape>& shapes, ThreadPool& threads) {
  std::vector<const Shape*> missing;
  for (const Shape& shape : shapes) {
    const auto at = by_shape_.find(shape);
    if (at == by_shape_.end()) {
      missing.push_back(&shape);
    } else {
      recent_.splice(recent_.begin(), recent_, at->second);
    }
  }
  std::vector<absl::StatusOr<Plan>> built(missing.size(), absl::UnknownError("not built"));
  threads.Run(std::ssize(missing), [&](int64_t i, int) { built[i] = BuildOne(*missing[i]); });
  for (size_t i = 0; i < missing.size(); ++i) Insert(*missing[i], std::move(built[i]));
  DropUnheld();
}

absl::StatusOr<CudnnPlans::Plan> CudnnPlans::BuildOne(const Shape& shape) const {
  return std::visit([&](const auto& s) -> absl::StatusOr<Plan> { return cudnn_->Build(s); }, shape);
}

void CudnnPlans::Insert(const Shape& shape, absl::StatusOr<Plan> plan) {
  Entry entry{.shape = shape, .plan = std::move(plan)};
  // A refusal takes memory too.
  entry.bytes = entry.plan.ok() ? (*entry.plan)->memory_bytes()
                                : static_cast<int64_t>(sizeof(Entry) + entry.plan.status().message().size());
  bytes_ += entry.bytes;
  recent_.push_front(std::move(entry));
  by_shape_.emplace(shape, recent_.begin());
}

// Dropping a plan that a graph holds would free nothing, and its shape would be built again.
void CudnnPlans::DropUnheld() {
  for (auto at = recent_.end(); bytes_ > most_bytes_ && at != recent_.begin();) {
    --at;
    if (at == recent_.begin()) return;
    if (at->plan.ok() && at->plan->use_count() > 1) continue;
    bytes_ -= at->bytes;
    by_shape_.erase(at->shape);
    at = recent_.erase(at);
  }
}

}  // namespace kinora
