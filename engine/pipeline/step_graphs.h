// Cache of captured steps. It outlives a request, so a request whose shape is cached captures nothing. The first step
// of a shape runs uncaptured.
//
// A graph holds addresses, shapes and constants of ops. The layout of a request's memory depends only on its shape, so
// addresses repeat; if they do not, the step is captured again. Values that differ between requests of one shape (noise
// levels, guidance weights, prompts, latents) are read from memory.
#ifndef KINORA_ENGINE_PIPELINE_STEP_GRAPHS_H_
#define KINORA_ENGINE_PIPELINE_STEP_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/diffusion/sampler.h"
#include "engine/pipeline/graph_misses.h"
#include "engine/pipeline/velocity_model.h"

namespace kinora {

// Key of a step within one pipeline, which fixes mesh and precision.
struct StepShape {
  VelocityModel::Shape model;
  SamplerKind sampler = SamplerKind::kEuler;
  int64_t room_for_steps = 0, room_for_noise = 0;
  PerModality<int64_t> blended;  // distinct mask values of the blend with clean latents; 0: no blend
  PerModality<ModalityUse> use;
  PerModality<bool> frozen;
  const void* kept_ropes = nullptr;  // those of VelocityModel
  bool operator==(const StepShape&) const = default;
};

class StepGraphs {  // one per rank; not thread-safe
 public:
  // capacity: number of graphs kept; the least recently used is evicted first.
  explicit StepGraphs(size_t capacity = 16) : capacity_(capacity) {}

  // Enqueues a step of `shape`. The first time it calls `step` directly, so that one-time work of ops (measuring
  // algorithms, making plans) happens outside a capture, where it may wait. The second time it captures `step` as a
  // graph and replays it; later calls replay the graph. addresses: of everything that the step reads and writes; with
  // other addresses than before, it starts over.
  // A step that cannot be captured is logged, and called directly from then on. If memory is lacking, the least
  // recently used graphs are dropped first. Failures of the work are the stream's.
  void Run(Stream& stream, const StepShape& shape, const std::vector<const void*>& addresses,
           const std::function<void()>& step);

  int64_t captures() const { return captures_; }         // since construction
  const GraphMisses& misses() const { return misses_; }  // steps that were called directly, since construction
  size_t size() const { return recent_.size(); }

 private:
  struct Entry {
    StepShape shape;
    std::vector<const void*> addresses;
    std::unique_ptr<Graph> graph{};         // null: the step ran only once, or cannot be captured
    std::optional<GraphMiss> fails_with{};  // why it cannot be captured
  };
  void CaptureNewest(Stream& stream, const std::function<void()>& step);
  bool DropOldestGraph();
  void RunDirectly(GraphMiss why, const std::function<void()>& step);
  const size_t capacity_;
  std::list<Entry> recent_;  // most recent first
  int64_t captures_ = 0;
  GraphMisses misses_{};
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STEP_GRAPHS_H_
