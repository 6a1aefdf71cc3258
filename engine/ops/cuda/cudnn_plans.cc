#include "engine/ops/cuda/cudnn_plans.h"

#include <utility>

namespace kinora {

absl::StatusOr<CudnnPlans::Plan> CudnnPlans::For(const Shape& shape) {
  if (const auto at = by_shape_.find(shape); at != by_shape_.end()) {
    recent_.splice(recent_.begin(), recent_, at->second);
    return at->second->plan;
  }
  Entry entry{.shape = shape, .plan = std::visit([&](const auto& s) { return cudnn_->Build(s); }, shape)};
  // A refusal takes memory too.
  entry.bytes = entry.plan.ok() ? (*entry.plan)->memory_bytes()
                                : static_cast<int64_t>(sizeof(Entry) + entry.plan.status().message().size());
  absl::StatusOr<Plan> plan = entry.plan;  // holds it, so that it is not dropped
  bytes_ += entry.bytes;
  recent_.push_front(std::move(entry));
  by_shape_.emplace(shape, recent_.begin());
  DropUnheld();
  return plan;
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
