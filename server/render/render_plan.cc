#include "server/render/render_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/dry_communicator.h"
#include "server/decode/input_reader.h"
#include "server/render/render_request.h"

namespace kinora {
namespace {

// Lightricks' default, then common requests: 5 and 10 s of 720p and 1080p on the grid of 32 pixels.
constexpr ClipShape kUsual[] = {
    {768, 512, 121}, {1280, 704, 121}, {1280, 704, 257}, {1920, 1088, 121}, {1920, 1088, 257}};

bool Fits(const PlanRow& row, int64_t device_memory) { return row.plan.FitsDevice(device_memory); }

int64_t LeastBytes(const RunPlan& plan) { return plan.device_bytes() + plan.driver_bytes; }

// Returns the last line of the table.
std::string DescribeLeast(const std::vector<PlanRow>& rows, const std::string& device) {
  const auto least = std::min_element(rows.begin(), rows.end(),
                                      [](const PlanRow& a, const PlanRow& b) { return a.least_bytes < b.least_bytes; });
  // Rounded up, so that the printed value works.
  const double gigabytes = std::ceil(static_cast<double>(least->least_bytes) / 1e6) / 1e3;
  return absl::StrFormat("the smallest --device-memory that works (%s): %.3fGB, for %dx%d, %d frames\n",
                         device == "cuda" ? "a GPU" : "the CPU", gigabytes, least->width, least->height,
                         least->num_frames);
}

// device_memory: bytes; 0: not given.
absl::StatusOr<PlanRow> PlanOfClip(int64_t device_memory, const Mesh& mesh, const GenerationRequest& request,
                                   PipelineOptions& pipeline) {
  const int64_t memory = device_memory > 0 ? device_memory : std::numeric_limits<int64_t>::max();
  PlanRow row;
  KINORA_ASSIGN_OR_RETURN(row.plan, Pipeline::PlanWithin({memory, "--device-memory"}, mesh, request, pipeline));
  row.width = row.plan.request.width;
  row.height = row.plan.request.height;
  row.num_frames = row.plan.request.num_frames;
  row.least_bytes = LeastBytes(row.plan);
  if (device_memory == 0) return row;
  KINORA_ASSIGN_OR_RETURN(const RunPlan least, Pipeline::PlanWithin({1, "--device-memory"}, mesh, request, pipeline));
  row.least_bytes = std::min(row.least_bytes, LeastBytes(least));
  return row;
}

}  // namespace

absl::StatusOr<std::vector<PlanRow>> MakePlan(const RenderOptions& options) {
  PipelineOptions pipeline;
  pipeline.released = options.like;
  if (options.like.empty()) {
    KINORA_ASSIGN_OR_RETURN(pipeline.files, ModelFiles::Parse(options.model));
  }
  pipeline.device = options.device;
  pipeline.precision = options.precision;
  pipeline.untiled_decode = options.untiled_decode;
  pipeline.decoder_border = options.decoder_border;
  if (options.generation.audio_only()) pipeline.modalities = Modalities::kSound;
  const int threads = options.threads != 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  pipeline.threads = std::max(1, threads / options.mesh.ranks());
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, MakeDryMesh(options.mesh, /*rank=*/0));
  std::vector<ClipShape> shapes = {{}};  // the model's default
  shapes.insert(shapes.end(), std::begin(kUsual), std::end(kUsual));
  v1::Generation asked = options.generation;
  if (asked.audio_only() || asked.width() != 0 || asked.height() != 0 || asked.num_frames() != 0 ||
      asked.has_auto_length()) {
    shapes = {{asked.width(), asked.height(), asked.num_frames()}};  // 0: the model's default
  }
  if (asked.recipe() == v1::Generation::RECIPE_UNSPECIFIED) asked.set_recipe(v1::Generation::ONE_STAGE);
  KINORA_ASSIGN_OR_RETURN(GenerationRequest request, ToRenderRequest(asked, pipeline));
  pipeline.inputs = NamesInputs(request);
  std::vector<PlanRow> rows;
  for (const ClipShape& shape : shapes) {
    request.width = shape.width;
    request.height = shape.height;
    request.num_frames = shape.num_frames;
    KINORA_ASSIGN_OR_RETURN(PlanRow row, PlanOfClip(options.device_memory, *mesh, request, pipeline));
    const bool again = shape.width != 0 && !rows.empty() && rows[0].width == row.width &&
                       rows[0].height == row.height && rows[0].num_frames == row.num_frames;
    if (!again) rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

std::string PlanJson(const std::vector<PlanRow>& rows, int64_t device_memory) {
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
                   {"flops", row.plan.flops()},
                   {"tiles", row.plan.denoised.video ? row.plan.tiles.ToString() : ""}});
    if (device_memory > 0) {
      out.back()["fits"] = Fits(row, device_memory);
      out.back()["least_device_bytes"] = absl::StrCat(row.least_bytes);
    }
  }
  return out.dump() + "\n";
}

}  // namespace

std::string FormatPlan(const std::vector<PlanRow>& rows, const RenderOptions& options) {
  const int64_t device_memory = options.device_memory;
  if (options.json) return PlanJson(rows, device_memory);
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
  if (device_memory > 0 && !rows.empty()) out += DescribeLeast(rows, options.device);
  return out;
}

}  // namespace kinora
