// What `kinora bench` measured, from the ended jobs of its clips.
#ifndef KINORA_SERVER_TOOLS_BENCH_REPORT_H_
#define KINORA_SERVER_TOOLS_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Of several runs.
struct Spread {
  double median = 0, least = 0, most = 0;
  static Spread Of(std::vector<double> values);  // at least one
};

struct BenchReport {
  v1::Video first;      // of the clips, for what they have in common
  int clips = 0;        // that were counted
  int steps = 0;        // of denoising, of each
  Spread clip_seconds;  // from the start of a run to its end, as the server has it
  Spread step_seconds;  // of a clip's denoising, by its steps; 0: there were none
  std::vector<std::pair<std::string, double>> stage_seconds;  // medians, in the order of their size, longest first
  // Clips by the time from the first start to the last end: what the server's groups do side by side.
  double clips_per_hour = 0;
};

// videos: completed, one shape, at least one.
BenchReport ReportOf(const std::vector<v1::Video>& videos);

std::string BenchText(const BenchReport& report);
// One line, numbers in seconds.
std::string BenchJson(const BenchReport& report);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_BENCH_REPORT_H_
