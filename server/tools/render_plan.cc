#include "server/tools/render_plan.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/dry_communicator.h"
#include "server/common/request_conversion.h"
#include "server/decode/input_reader.h"

namespace kinora {
namespace {

// Lightricks' default, then what people ask for: 5 and 10 s of 720p and 1080p on the grid of 32 pixels.
constexpr ClipShape kUsual[] = {
    {768, 512, 121}, {1280, 704, 121}, {1280, 704, 257}, {1920, 1088, 121}, {1920, 1088, 257}};

bool Fits(const PlanRow& row, int64_t device_memory) { return row.plan.FitsDevice(device_memory); }

}  // namespace

absl::StatusOr<std::vector<PlanRow>> MakePlan(const RenderOptions& options) {
  PipelineOptions pipeline;
  pipeline.released = options.like;
  if (options.like.empty()) {
    KINORA_ASSIGN_OR_RETURN(pipeline.files, ModelFiles::Parse(options.model));
  }
  pipeline.device = options.device;
  pipeline.precision = options.precision;
  if (options.generation.audio_only()) pipeline.streams = Streams::kSound;
  const int threads = options.threads != 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  pipeline.threads = std::max(1, threads / options.mesh.ranks());
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeDryMesh(options.mesh, /*rank=*/0));
  std::vector<ClipShape> shapes = {{}};  // the model's default
  shapes.insert(shapes.end(), std::begin(kUsual), std::end(kUsual));
  const v1::Generation& asked = options.generation;
  if (asked.audio_only() || asked.width() != 0 || asked.height() != 0 || asked.num_frames() != 0) {
    shapes = {{asked.width(), asked.height(), asked.num_frames()}};  // what is not given: the model's default
  }
  KINORA_ASSIGN_OR_RETURN(GenerationRequest request, ToGenerationRequest(asked));
  pipeline.inputs = NamesInputs(request);
  if (request.recipe == Recipe::kUnspecified) request.recipe = Recipe::kOneStage;
  std::vector<PlanRow> rows;
  for (const ClipShape& shape : shapes) {
    request.width = shape.width;
    request.height = shape.height;
    request.num_frames = shape.num_frames;
    const int64_t memory = options.device_memory > 0 ? options.device_memory : std::numeric_limits<int64_t>::max();
    KINORA_ASSIGN_OR_RETURN(RunPlan plan, Pipeline::PlanWithin({memory, "--device-memory"}, *mesh, request, pipeline));
    const GenerationRequest& r = plan.request;
    const bool again = shape.width != 0 && !rows.empty() && rows[0].width == r.width && rows[0].height == r.height &&
                       rows[0].num_frames == r.num_frames;
    if (again) continue;
    rows.push_back({.width = r.width, .height = r.height, .num_frames = r.num_frames, .plan = std::move(plan)});
  }
  return rows;
}

std::string FormatPlan(const std::vector<PlanRow>& rows, int64_t device_memory, bool json) {
  if (json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const PlanRow& row : rows) {
      out.push_back({{"width", row.width},
                     {"height", row.height},
                     {"num_frames", row.num_frames},
                     {"weight_bytes", absl::StrCat(row.plan.weight_bytes)},
                     {"activation_bytes", absl::StrCat(row.plan.arena_bytes)},
                     {"workspace_bytes", absl::StrCat(row.plan.workspace_bytes)},
                     {"device_bytes", absl::StrCat(row.plan.device_bytes())},
                     {"text_encoder", row.plan.evicted_bytes > 0 ? "evicted" : "resident"},
                     {"evicted_bytes", absl::StrCat(row.plan.evicted_bytes)},
                     {"flops", row.plan.flops()}});
      if (device_memory > 0) out.back()["fits"] = Fits(row, device_memory);
    }
    return out.dump() + "\n";
  }
  std::string out =
      absl::StrFormat("%10s %7s %12s %15s %12s %12s%s\n", "size", "frames", "weights GB", "activations GB", "total GB",
                      "TFLOP", device_memory > 0 ? "  fits   text encoder" : "");
  for (const PlanRow& row : rows) {
    absl::StrAppendFormat(
        &out, "%10s %7d %12.3f %15.3f %12.3f %12.3f%s\n", absl::StrCat(row.width, "x", row.height), row.num_frames,
        static_cast<double>(row.plan.weight_bytes) / 1e9, static_cast<double>(row.plan.arena_bytes) / 1e9,
        static_cast<double>(row.plan.device_bytes()) / 1e9, row.plan.flops() / 1e12,
        device_memory <= 0
            ? ""
            : absl::StrCat(Fits(row, device_memory) ? "   yes" : "    no", "   ", row.plan.TextEncoderResidence()));
  }
  return out;
}

}  // namespace kinora
