// kinora-render --plan: memory and compute of clips of common sizes on one rank, from the files' headers alone.
#ifndef KINORA_SERVER_RENDER_RENDER_PLAN_H_
#define KINORA_SERVER_RENDER_RENDER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/pipeline/pipeline.h"
#include "server/render/render_flags.h"

namespace kinora {

struct PlanRow {
  int32_t width = 0, height = 0, num_frames = 0;
  RunPlan plan{};
  int64_t least_bytes = 0;  // the smallest device memory in which it fits
};

// Plans the model's default shape and common ones, or only the shape of --width, --height and --frames. Without
// --recipe it plans ONE_STAGE, which takes the most memory. Reads no weights and reserves no memory.
absl::StatusOr<std::vector<PlanRow>> MakePlan(const RenderOptions& options);

// Returns a table for people, or with `json` one JSON line with 64-bit numbers as strings. With options.device_memory
// it also shows which rows fit, and the smallest memory that works.
std::string FormatPlan(const std::vector<PlanRow>& rows, const RenderOptions& options);

}  // namespace kinora

#endif  // KINORA_SERVER_RENDER_RENDER_PLAN_H_
