#include "engine/pipeline/step_graphs.h"

#include <algorithm>

#include "engine/base/status_macros.h"

namespace kinora {

absl::Status StepGraphs::Run(Stream& stream, const StepShape& shape, const std::vector<const void*>& addresses,
                             const std::function<void()>& step) {
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Entry& e) { return e.shape == shape; });
  if (found == recent_.end() || found->addresses != addresses) {
    step();
    if (found != recent_.end()) recent_.erase(found);
    if (recent_.size() == capacity_) recent_.pop_back();
    recent_.push_front({.shape = shape, .addresses = addresses, .graph = nullptr});
    return absl::OkStatus();
  }
  recent_.splice(recent_.begin(), recent_, found);
  if (found->graph == nullptr) {
    KINORA_ASSIGN_OR_RETURN(found->graph, stream.Capture(step));
    ++captures_;
  }
  found->graph->Replay();
  return absl::OkStatus();
}

}  // namespace kinora
