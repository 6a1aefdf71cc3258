#include "server/client/bench_report.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/request/stage.h"
#include "server/client/job_text.h"
#include "server/common/human_text.h"

namespace kinora {
namespace {

using google::protobuf::util::TimeUtil;

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(TimeUtil::DurationToNanoseconds(duration)) * 1e-9;
}

int StepsOf(const v1::Video& video) {
  int steps = 0;
  for (const v1::Resolved::Stage& stage : video.resolved().stages()) steps += std::max(0, stage.sigmas_size() - 1);
  return steps;
}

// The time of the denoising stages, which are those with steps.
double DenoiseSeconds(const v1::Video& video) {
  double seconds = 0;
  for (const auto& [stage, took] : video.usage().stage_seconds()) {
    const StageRow* const row = FindStage(stage);
    if (row != nullptr && row->stage.kind == StageKind::kDenoise) seconds += took;
  }
  return seconds;
}

std::string SpreadText(const Spread& spread) {
  return absl::StrFormat("%.3f s median, %.3f to %.3f s", spread.median, spread.least, spread.most);
}

nlohmann::ordered_json SpreadJson(const Spread& spread) {
  return {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}};
}

}  // namespace

Spread Spread::Of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {.median = median, .least = values.front(), .most = values.back()};
}

BenchReport ReportOf(const std::vector<v1::Video>& videos) {
  BenchReport report{.first = videos[0],
                     .clips = static_cast<int>(videos.size()),
                     .steps = StepsOf(videos[0]),
                     .clip_seconds = {},
                     .step_seconds = {},
                     .stage_seconds = {}};
  std::vector<double> clip, step;
  std::map<std::string, std::vector<double>> stages;
  google::protobuf::Timestamp begin = videos[0].start_time(), end = videos[0].end_time();
  for (const v1::Video& video : videos) {
    clip.push_back(Seconds(video.end_time() - video.start_time()));
    if (report.steps > 0) step.push_back(DenoiseSeconds(video) / report.steps);
    for (const auto& [stage, seconds] : video.usage().stage_seconds()) stages[stage].push_back(seconds);
    begin = std::min(begin, video.start_time());
    end = std::max(end, video.end_time());
  }
  report.clip_seconds = Spread::Of(std::move(clip));
  if (!step.empty()) report.step_seconds = Spread::Of(std::move(step));
  for (auto& [stage, seconds] : stages) {
    report.stage_seconds.emplace_back(stage, Spread::Of(std::move(seconds)).median);
  }
  std::stable_sort(report.stage_seconds.begin(), report.stage_seconds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const double all = Seconds(end - begin);
  report.clips_per_hour = all > 0 ? 3600 * report.clips / all : 0;
  return report;
}

std::string BenchText(const BenchReport& report) {
  const v1::Generation g = MadeOf(report.first);
  const v1::Resolved& resolved = report.first.resolved();
  std::string out =
      absl::StrFormat("%-14s %s, %s, %s, %s\n%-14s %dx%d, %d frames, %d steps\n%-14s %d\n%-14s %s\n", "model",
                      report.first.model(), resolved.precision(), resolved.device(),
                      resolved.mesh().empty() ? "one rank" : resolved.mesh(), "clip", g.width(), g.height(),
                      g.num_frames(), report.steps, "clips", report.clips, "per clip", SpreadText(report.clip_seconds));
  if (report.steps > 0) absl::StrAppendFormat(&out, "%-14s %s\n", "per step", SpreadText(report.step_seconds));
  for (const auto& [stage, seconds] : report.stage_seconds) {
    absl::StrAppendFormat(&out, "  %-12s %.3f s\n", stage, seconds);
  }
  absl::StrAppendFormat(&out, "%-14s %.1f\n", "clips per hour", report.clips_per_hour);
  return out;
}

std::string BenchJson(const BenchReport& report) {
  const v1::Generation g = MadeOf(report.first);
  const v1::Resolved& resolved = report.first.resolved();
  nlohmann::ordered_json json = {{"model", report.first.model()},
                                 {"precision", resolved.precision()},
                                 {"device", resolved.device()},
                                 {"mesh", resolved.mesh()},
                                 {"build", resolved.build()},
                                 {"width", g.width()},
                                 {"height", g.height()},
                                 {"num_frames", g.num_frames()},
                                 {"steps", report.steps},
                                 {"clips", report.clips},
                                 {"clip_seconds", SpreadJson(report.clip_seconds)}};
  if (report.steps > 0) json["step_seconds"] = SpreadJson(report.step_seconds);
  for (const auto& [stage, seconds] : report.stage_seconds) json["stage_seconds"][stage] = seconds;
  json["clips_per_hour"] = report.clips_per_hour;
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kinora
