// The measurements of `kinora bench`, from its completed jobs.
#ifndef KINORA_SERVER_CLIENT_BENCH_REPORT_H_
#define KINORA_SERVER_CLIENT_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Statistics of several runs.
struct Spread {
  double median = 0, least = 0, most = 0;
  static Spread Of(std::vector<double> values);  // at least one
};

struct BenchReport {
  v1::Video first;                                            // first clip, for the properties common to all
  int clips = 0;                                              // number of timed clips
  int steps = 0;                                              // denoising steps per clip
  Spread clip_seconds;                                        // from start to end of a run, by the server's times
  Spread step_seconds;                                        // denoising time of a clip per step; 0 without steps
  std::vector<std::pair<std::string, double>> stage_seconds;  // medians, longest first
  // From the first start to the last end, so that it counts groups that work in parallel.
  double clips_per_hour = 0;
};

// videos: at least one; all completed and of one shape.
BenchReport ReportOf(const std::vector<v1::Video>& videos);

std::string BenchText(const BenchReport& report);
// One line of JSON; times in seconds.
std::string BenchJson(const BenchReport& report);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_BENCH_REPORT_H_
