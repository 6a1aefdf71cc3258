#include "engine/pipeline/step_graphs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/logging.h"

namespace kinora {

void StepGraphs::Run(Stream& stream, const StepShape& shape, const std::vector<const void*>& addresses,
                     const std::function<void()>& step) {
  if (!stream.can_capture()) return RunDirectly(GraphMiss::kOff, step);
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Entry& e) { return e.shape == shape; });
  if (found == recent_.end() || found->addresses != addresses) {
    RunDirectly(found == recent_.end() ? GraphMiss::kNewShape : GraphMiss::kOtherAddresses, step);
    if (found != recent_.end()) recent_.erase(found);
    if (recent_.size() == capacity_) recent_.pop_back();
    recent_.push_front({.shape = shape, .addresses = addresses});
    return;
  }
  recent_.splice(recent_.begin(), recent_, found);
  if (found->graph == nullptr && !found->fails_with.has_value()) CaptureNewest(stream, step);
  if (found->graph != nullptr) return found->graph->Replay();
  // Without a reason, earlier work has failed, and so does what `step` enqueues.
  RunDirectly(found->fails_with.value_or(GraphMiss::kCaptureFailed), step);
}

void StepGraphs::CaptureNewest(Stream& stream, const std::function<void()>& step) {
  Entry& entry = recent_.front();
  absl::StatusOr<std::unique_ptr<Graph>> graph = stream.Capture(step);
  while (absl::IsResourceExhausted(graph.status()) && DropOldestGraph()) graph = stream.Capture(step);
  if (graph.ok()) {
    entry.graph = *std::move(graph);
    ++captures_;
    return;
  }
  if (stream.failed()) return;
  entry.fails_with = absl::IsResourceExhausted(graph.status()) ? GraphMiss::kOutOfMemory : GraphMiss::kCaptureFailed;
  Log(Severity::kWarning, "graph_capture_failed",
      {{"video_tokens", entry.shape.model.tokens.video},
       {"audio_tokens", entry.shape.model.tokens.audio},
       {"passes", entry.shape.model.passes.size()},
       {"error", std::string(graph.status().message())}});
}

// Returns false if there is no graph.
bool StepGraphs::DropOldestGraph() {
  const auto oldest =
      std::find_if(recent_.rbegin(), recent_.rend(), [](const Entry& each) { return each.graph != nullptr; });
  if (oldest == recent_.rend()) return false;
  oldest->graph = nullptr;
  return true;
}

void StepGraphs::RunDirectly(GraphMiss why, const std::function<void()>& step) {
  ++misses_[static_cast<size_t>(why)];
  step();
}

}  // namespace kinora
