// Which memory a loaded model should reserve, and which clips fit what it has reserved.
#ifndef KINORA_ENGINE_PIPELINE_MEMORY_PLAN_H_
#define KINORA_ENGINE_PIPELINE_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/base/memory.h"
#include "engine/pipeline/dry_model.h"

namespace kinora {

// For activations, once and for all requests.
struct ReservedMemory {
  int64_t arena_bytes = 0;
  int64_t host_arena_bytes = 0;  // beside them, where device memory is not host memory
  bool Holds(const RunPlan& plan) const {
    return plan.arena_bytes <= arena_bytes && plan.host_arena_bytes <= host_arena_bytes;
  }
};

// What one rank that may take `memory` should reserve. Where the device has memory of its own: what weights, workspaces
// and driver leave, or what the model's largest clip takes if that is less; and host memory for whatever clip fits
// that. Where memory is one, three quarters of it less the weights, at least what the default request takes: pages that
// no request touches cost nothing. ResourceExhausted, with what is free, if not even the smallest clip fits a device.
absl::StatusOr<ReservedMemory> PlanMemory(const DryModel& model, const MemoryLimit& memory);

// Largest number of video tokens that fit, along clips of growing length at the default size and then of growing size;
// 0: no request within the other limits is too large.
absl::StatusOr<int64_t> MaxTokens(const DryModel& model, const ReservedMemory& reserved);

// Most frames that a clip of the request's size, otherwise like it, may have to fit; 0: it does not fit at that size.
// request: resolved.
absl::StatusOr<int32_t> MostFrames(const DryModel& model, const ReservedMemory& reserved,
                                   const GenerationRequest& request);

// What to ask for in the place of a clip that does not fit: the longest of its size that does; where not one frame
// does, the largest of about its proportions and of its length. Nothing: none does. request: resolved.
absl::StatusOr<std::optional<ClipShape>> NearestThatFits(const DryModel& model, const ReservedMemory& reserved,
                                                         const GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_MEMORY_PLAN_H_
