// kinora-render --plan: what clips of usual sizes would take in memory and work on one rank, from the files' headers
// alone.
#ifndef KINORA_SERVER_TOOLS_RENDER_PLAN_H_
#define KINORA_SERVER_TOOLS_RENDER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/pipeline/pipeline.h"
#include "server/tools/render_flags.h"

namespace kinora {

struct PlanRow {
  int32_t width = 0, height = 0, num_frames = 0;
  RunPlan plan{};
};

// What the flags ask for, in the model's default shape and usual ones, or in that of --width, --height and --frames;
// without --recipe ONE_STAGE, which takes the most memory. No weight is read and no memory is reserved.
absl::StatusOr<std::vector<PlanRow>> MakePlan(const RenderOptions& options);

// A table for people, or with `json` one JSON line, 64-bit numbers as strings. `device_memory`: bytes to fit into; 0:
// says nothing of fitting.
std::string FormatPlan(const std::vector<PlanRow>& rows, int64_t device_memory, bool json);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_RENDER_PLAN_H_
