#include "server/render/render_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/common/human_text.h"
#include "server/request/request_conversion.h"

namespace kinora {

void RenderTimes::Begin(const std::string& stage) {
  End();
  stages_.push_back({.name = stage});
  stage_begin_ = step_begin_ = clock_.Now();
  step_ = 0;
  running_ = true;
}

void RenderTimes::Report(const Progress& progress) {
  if (!running_ || stages_.back().name != progress.stage.name()) Begin(std::string(progress.stage.name()));
  if (progress.step <= step_) return;
  const absl::Time now = clock_.Now();
  stages_.back().step_seconds.push_back(absl::ToDoubleSeconds(now - step_begin_));
  step_ = progress.step;
  step_begin_ = now;
}

void RenderTimes::End() {
  if (!running_) return;
  const absl::Time now = clock_.Now();
  stages_.back().seconds = absl::ToDoubleSeconds(now - stage_begin_);
  running_ = false;
}

std::string RenderSummaryJson(const RenderSummary& summary, const RenderTimes& times) {
  nlohmann::ordered_json json;
  json["file"] = summary.file;
  json["seed"] = absl::StrCat(summary.effective.seed());
  double total = 0;
  json["seconds"] = {{"total", 0}};
  for (const RenderTimes::Stage& stage : times.stages()) {
    json["seconds"][stage.name] = stage.seconds;
    if (!stage.step_seconds.empty()) json["step_seconds"][stage.name] = stage.step_seconds;
    total += stage.seconds;
  }
  json["seconds"]["total"] = total;
  const auto bytes = [](int64_t count) { return absl::StrCat(count); };
  json["memory"]["measured"] = {{"process_peak_bytes", bytes(summary.peak_process_bytes)},
                                {"activation_peak_bytes", bytes(summary.peak_activation_bytes)}};
  json["memory"]["planned"] = {{"activation_bytes", bytes(summary.planned_activation_bytes)},
                               {"weight_bytes", bytes(summary.planned_weight_bytes)},
                               {"workspace_bytes", bytes(summary.planned_workspace_bytes)}};
  json["collectives"] = nlohmann::ordered_json::object();
  for (int i = 0; i < kCollectives; ++i) {
    const CollectiveCount& count = summary.collectives[i];
    if (count.calls == 0) continue;
    json["collectives"][std::string(CollectiveName(static_cast<Collective>(i)))] = {
        {"calls", absl::StrCat(count.calls)}, {"bytes", absl::StrCat(count.bytes)}};
  }
  json["precision"] = summary.precision;
  json["mesh"] = summary.mesh;
  json["generation"] = nlohmann::ordered_json::parse(EveryFieldJson(summary.effective));
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string RenderSummaryText(const RenderSummary& summary, const RenderTimes& times) {
  double seconds = 0;
  for (const RenderTimes::Stage& stage : times.stages()) seconds += stage.seconds;
  const v1::Generation& g = summary.effective;
  const std::string what =
      g.audio_only()
          ? absl::StrFormat("%s of sound", HumanSeconds(g.num_frames() / g.frame_rate()))
          : absl::StrFormat("%dx%d, %d frames at %g fps", g.width(), g.height(), g.num_frames(), g.frame_rate());
  return absl::StrFormat(
      "%s: %s, seed %d, %.1f s, memory: %s in the process and %s of activations measured, %s planned", summary.file,
      what, g.seed(), seconds, HumanBytes(summary.peak_process_bytes), HumanBytes(summary.peak_activation_bytes),
      HumanBytesLike(summary.planned_activation_bytes, summary.peak_activation_bytes));
}

}  // namespace kinora
