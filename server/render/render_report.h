// Times and memory of a render, for --json and for people.
#ifndef KINORA_SERVER_RENDER_RENDER_REPORT_H_
#define KINORA_SERVER_RENDER_RENDER_REPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/parallel/communicator.h"
#include "engine/request/request.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

class RenderTimes {  // one thread
 public:
  explicit RenderTimes(Clock& clock) : clock_(clock) {}

  // Begins a stage that no Progress reports (loading, finalizing), and ends the previous one.
  void Begin(const std::string& stage);
  void Report(const Progress& progress);  // a new stage or a step done
  void End();                             // ends the last stage

  struct Stage {
    std::string name;
    double seconds = 0;
    std::vector<double> step_seconds{};
  };
  const std::vector<Stage>& stages() const { return stages_; }

 private:
  Clock& clock_;
  std::vector<Stage> stages_;
  bool running_ = false;
  absl::Time stage_begin_, step_begin_;
  int32_t step_ = 0;
};

struct RenderSummary {
  std::string file;
  v1::Generation effective{};
  std::string precision, mesh;
  // Rank 0's memory: the measured peaks of its process (PeakProcessBytes) and of its activations, then the plan.
  int64_t peak_process_bytes = 0, peak_activation_bytes = 0;
  int64_t planned_activation_bytes = 0, planned_weight_bytes = 0, planned_workspace_bytes = 0;
  CollectiveCounts collectives{};
};

// Returns one JSON object without line breaks, with 64-bit numbers as strings as in the API's JSON: file, seed, seconds
// {total, STAGE…}, step_seconds {STAGE: […]}, memory {measured {process_peak_bytes, activation_peak_bytes}, planned
// {activation_bytes, weight_bytes, workspace_bytes}}, collectives {NAME: {calls, bytes}}, precision, mesh, and
// generation, the effective one with every field.
std::string RenderSummaryJson(const RenderSummary& summary, const RenderTimes& times);
// Returns one line for people.
std::string RenderSummaryText(const RenderSummary& summary, const RenderTimes& times);

}  // namespace kinora

#endif  // KINORA_SERVER_RENDER_RENDER_REPORT_H_
