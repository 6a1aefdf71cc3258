// Limits how far the host runs ahead of the device in a loop of steps, and passes rank 0's decision to continue or stop
// to every rank between steps.
#ifndef KINORA_ENGINE_PIPELINE_STEP_GATE_H_
#define KINORA_ENGINE_PIPELINE_STEP_GATE_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/trace.h"
#include "engine/parallel/exec.h"
#include "engine/pipeline/step_word.h"

namespace kinora {

// On an asynchronous device the host is one step ahead: it enqueues step i + 1 while step i runs, so the device never
// waits for a decision, and a stop takes effect one step later. On a synchronous device the host decides after each
// step.
class StepGate {
 public:
  // on_step is called on rank 0 once per step (0-based), in order, when the step is done. If it fails, the loop ends on
  // every rank: rank 0 with its status, the others with Cancelled. ahead: false if the next step must not be enqueued
  // before on_step returns. name: of a step in traces; must outlive the gate.
  using OnStep = absl::FunctionRef<absl::Status(int64_t step)>;
  // decision: how the ranks learn whether to go on. kAwaited: every rank waits for rank 0 between two steps, and all
  // leave after the step that on_step refuses. kTravels, on an asynchronous device: with the steps (StepWord), so that
  // no host waits. Rank 0 then goes on enqueuing, and all leave one or two steps later; on_step is not called again.
  enum class Decision : uint8_t { kAwaited, kTravels };
  StepGate(Exec& exec, OnStep on_step, bool ahead, const char* name = "step", Decision decision = Decision::kAwaited);

  // Starts a turn of the stream, to measure the device's idle time between steps. Optional; call it before enqueuing
  // each step.
  void Begin() { exec_.ops.stream().BeginTurn(/*resumes=*/enqueued_ > 0); }
  // Every rank must call it after it has enqueued a step. Returns OK if the next step may be enqueued; otherwise
  // the stream's failure or on_step's status, when all enqueued work has ended. read: on_step reads this step's
  // results, so the next step waits for it; must be equal on every rank.
  absl::Status Pass(bool read = false);
  // Waits for all steps. Every rank must call it after the last Pass.
  absl::Status Finish();

 private:
  absl::Status ReportUpTo(int64_t step);
  absl::Status Report();

  Exec& exec_;
  const OnStep on_step_;
  const char* const name_;
  const int64_t lead_;  // steps that may be enqueued but not reported
  int64_t enqueued_ = 0, reported_ = 0;
  absl::Time last_done_ = absl::InfinitePast();  // end of the last reported step, for traces
  std::array<int64_t, Stream::kMarks> marks_{};
  std::optional<StepWord> word_;  // kTravels, in a mesh of several ranks; on every device, which have one memory plan
  bool travels_ = false;          // whether decisions do: with word_, on an asynchronous device
  absl::Status decision_;         // rank 0's, if it travels
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STEP_GATE_H_
