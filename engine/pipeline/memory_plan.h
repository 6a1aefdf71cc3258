// How much memory a loaded model should reserve, and which clips fit the reserved memory.
#ifndef KINORA_ENGINE_PIPELINE_MEMORY_PLAN_H_
#define KINORA_ENGINE_PIPELINE_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/base/memory.h"
#include "engine/pipeline/dry_model.h"

namespace kinora {

// Memory for activations, reserved once for all requests.
struct ReservedMemory {
  int64_t arena_bytes = 0;
  int64_t host_arena_bytes = 0;  // pinned host memory for copies and noise; 0 if device memory is host memory
  int64_t left_bytes = 0;        // of device memory; 0 if it is host memory
  bool Holds(const RunPlan& plan) const {
    return plan.arena_bytes <= arena_bytes && plan.host_arena_bytes <= host_arena_bytes;
  }
};

// Returns the memory that one rank which may use `memory` should reserve.
// A device with its own memory: all that weights, workspaces and driver leave, or the need of the model's largest clip
// if that is less; and host memory for any clip that fits. Fails with ResourceExhausted, stating the available memory,
// if not even the smallest clip fits.
// Unified memory: three quarters of `memory` minus weights and workspaces, but at least the need of the default
// request, unless clips are decoded untiled. Pages that no request touches cost nothing.
absl::StatusOr<ReservedMemory> PlanMemory(const DryModel& model, const MemoryLimit& memory);

// Returns the largest number of video tokens that fit, or 0 if every request within the other limits fits. Considers
// clips of the default size and growing length, then of the greatest length and growing size.
absl::StatusOr<int64_t> MaxTokens(const DryModel& model, const ReservedMemory& reserved);

// Returns the largest number of frames with which the request fits, or 0 if it does not fit at its size. request:
// resolved.
absl::StatusOr<int32_t> MostFrames(const DryModel& model, const ReservedMemory& reserved,
                                   const GenerationRequest& request);

// Returns a substitute for a request that does not fit: the longest clip of its size that fits or, if not even one
// frame does, the largest clip of its length and roughly its aspect ratio. Returns nullopt if none fits. request:
// resolved.
absl::StatusOr<std::optional<ClipShape>> NearestThatFits(const DryModel& model, const ReservedMemory& reserved,
                                                         const GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_MEMORY_PLAN_H_
