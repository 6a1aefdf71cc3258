// Captured steps of a pipeline, kept from request to request: one that has the shape of an earlier one captures
// nothing. A shape's first step of all runs uncaptured.
//
// A graph holds addresses, shapes and constants of ops. The request region is laid out by the shape alone, so addresses
// repeat; where they do not, the step is captured anew. What differs between requests of a shape (noise levels,
// guidance weights, prompts, latents) is read from memory.
#ifndef KINORA_ENGINE_PIPELINE_STEP_GRAPHS_H_
#define KINORA_ENGINE_PIPELINE_STEP_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/diffusion/sampler.h"
#include "engine/pipeline/velocity_model.h"

namespace kinora {

// All that tells the steps of one pipeline apart; mesh and precision are the pipeline's.
struct StepShape {
  VelocityModel::Shape model;
  SamplerKind sampler = SamplerKind::kEuler;
  int64_t room_for_steps = 0;
  PerModality<int64_t> blended;  // distinct mask values of the blend with clean latents; 0: no blend
  PerModality<ModalityUse> use;
  PerModality<bool> frozen;
  bool operator==(const StepShape&) const = default;
};

class StepGraphs {  // one rank's; not thread-safe
 public:
  // capacity: graphs kept; the one whose last use is the longest ago goes first.
  explicit StepGraphs(size_t capacity = 16) : capacity_(capacity) {}

  // Enqueues a step of `shape`: the first time `step` itself, so that what a device chooses and builds when it first
  // meets an op (algorithms that it measures, plans) is done where waiting is allowed; the second time as the graph
  // captured from it, which later steps replay. addresses: where what it reads and writes lies; for others it begins
  // anew.
  absl::Status Run(Stream& stream, const StepShape& shape, const std::vector<const void*>& addresses,
                   const std::function<void()>& step);

  int64_t captures() const { return captures_; }  // since construction
  size_t size() const { return recent_.size(); }

 private:
  struct Entry {
    StepShape shape;
    std::vector<const void*> addresses;
    std::unique_ptr<Graph> graph;  // null: the shape was met once
  };
  const size_t capacity_;
  std::list<Entry> recent_;  // most recent first
  int64_t captures_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STEP_GRAPHS_H_
