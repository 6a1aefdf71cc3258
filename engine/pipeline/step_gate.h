// How the host follows a loop of steps, and how rank 0's word, go on or stop, reaches every rank between them.
#ifndef KINORA_ENGINE_PIPELINE_STEP_GATE_H_
#define KINORA_ENGINE_PIPELINE_STEP_GATE_H_

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/trace.h"
#include "engine/parallel/exec.h"

namespace kinora {

// On a device that works behind the host's back the host is one step ahead: it enqueues step i + 1 while step i runs,
// so the device never waits for a word; a stop then comes one step later. Where work runs as it is enqueued it is asked
// at once.
class StepGate {
 public:
  // `on_step` is asked once for each step (0-based), in order, on rank 0, when that step is done; what it returns,
  // unless OK, ends the loop on every rank: rank 0 with that status, the others with Cancelled. ahead: false if no
  // step may be enqueued before that. name: of a step in a trace; outlives the gate.
  using OnStep = absl::FunctionRef<absl::Status(int64_t step)>;
  StepGate(Exec& exec, OnStep on_step, bool ahead, const char* name = "step")
      : exec_(exec), on_step_(on_step), name_(name), lead_(ahead && exec.ops.stream().asynchronous() ? 1 : 0) {
    if (Tracing() && !exec.ops.dry()) last_done_ = absl::Now();
  }

  // Called on every rank before a step is enqueued.
  void Begin() { exec_.ops.stream().BeginTurn(/*resumes=*/enqueued_ > 0); }
  // Called on every rank when a step has been enqueued; OK: the next may be. The stream's failure otherwise, or what
  // on_step said; nothing enqueued runs any more then. read: on_step reads what this step leaves, so that the next one
  // waits for it; the same on every rank.
  absl::Status Pass(bool read = false);
  // After the last step: waits for all of them.
  absl::Status Finish();

 private:
  absl::Status ReportUpTo(int64_t step);

  Exec& exec_;
  const OnStep on_step_;
  const char* const name_;
  const int64_t lead_;  // steps that may be enqueued and not reported
  int64_t enqueued_ = 0, reported_ = 0;
  absl::Time last_done_ = absl::InfinitePast();  // of the last step reported, for a trace
  std::array<int64_t, Stream::kMarks> marks_{};
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_STEP_GATE_H_
