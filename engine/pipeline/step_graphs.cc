#include "engine/pipeline/step_graphs.h"

#include <algorithm>

#include "engine/base/status_macros.h"

namespace kinora {

absl::StatusOr<Graph*> StepGraphs::Find(Stream& stream, const StepShape& shape,
                                        const std::vector<const void*>& addresses, const std::function<void()>& step) {
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Entry& e) { return e.shape == shape; });
  if (found != recent_.end() && found->addresses == addresses) {
    recent_.splice(recent_.begin(), recent_, found);
    return found->graph.get();
  }
  if (found != recent_.end()) recent_.erase(found);
  KINORA_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, stream.Capture(step));
  ++captures_;
  if (recent_.size() == capacity_) recent_.pop_back();
  recent_.push_front({.shape = shape, .addresses = addresses, .graph = std::move(graph)});
  return recent_.front().graph.get();
}

}  // namespace kinora
