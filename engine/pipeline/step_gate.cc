#include "engine/pipeline/step_gate.h"

#include <utility>

#include "engine/parallel/agree.h"

namespace kinora {

absl::Status StepGate::ReportUpTo(int64_t step) {
  Stream& stream = exec_.ops.stream();
  for (; reported_ < step; ++reported_) {
    absl::Status status = stream.WaitFor(marks_[reported_ % Stream::kMarks]);
    if (last_done_ != absl::InfinitePast()) {
      const absl::Time now = TraceNow();
      AddTraceSpan("step", name_, std::exchange(last_done_, now), now, {.step = reported_ + 1});
    }
    if (status.ok()) status = OnRankZero(exec_, [this] { return on_step_(reported_); });
    if (status.ok()) continue;
    const absl::Status rest = stream.Synchronize();  // clears the stream's failure
    return status;
  }
  return absl::OkStatus();
}

absl::Status StepGate::Pass(bool read) {
  marks_[enqueued_++ % Stream::kMarks] = exec_.ops.stream().Mark();
  return ReportUpTo(enqueued_ - (read ? 0 : lead_));
}

absl::Status StepGate::Finish() { return ReportUpTo(enqueued_); }

}  // namespace kinora
