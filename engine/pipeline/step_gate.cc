#include "engine/pipeline/step_gate.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"

namespace kinora {

StepGate::StepGate(Exec& exec, OnStep on_step, bool ahead, const char* name, Decision decision)
    : exec_(exec), on_step_(on_step), name_(name), lead_(ahead && exec.ops.stream().asynchronous() ? 1 : 0) {
  if (Tracing() && !exec.ops.dry()) last_done_ = TraceNow();
  if (decision == Decision::kAwaited || exec.mesh.world().size() == 1) return;
  word_.emplace(exec);
  travels_ = !exec.ops.dry() && exec.ops.stream().asynchronous();
}

absl::Status StepGate::Report() {
  if (!travels_) return OnRankZero(exec_, [this] { return on_step_(reported_); });
  const bool decides = exec_.mesh.world().rank() == 0;
  if (decides && decision_.ok()) {
    decision_ = on_step_(reported_);
    if (!decision_.ok()) word_->End();
  }
  if (!word_->EndsAfter(reported_)) return absl::OkStatus();
  return Agreed(decides ? decision_ : absl::CancelledError("rank 0 ended the run"));
}

absl::Status StepGate::ReportUpTo(int64_t step) {
  Stream& stream = exec_.ops.stream();
  for (; reported_ < step; ++reported_) {
    absl::Status status = stream.WaitFor(marks_[reported_ % Stream::kMarks]);
    if (last_done_ != absl::InfinitePast()) {
      const absl::Time now = TraceNow();
      AddTraceSpan("step", name_, std::exchange(last_done_, now), now, {.step = reported_ + 1});
    }
    if (status.ok()) status = Report();
    if (status.ok()) continue;
    const absl::Status rest = stream.Synchronize();  // clears the stream's failure
    return status;
  }
  return absl::OkStatus();
}

absl::Status StepGate::Pass(bool read) {
  if (travels_) word_->Enqueue(enqueued_);
  marks_[enqueued_++ % Stream::kMarks] = exec_.ops.stream().Mark();
  return ReportUpTo(enqueued_ - (read ? 0 : lead_));
}

absl::Status StepGate::Finish() {
  KINORA_RETURN_IF_ERROR(ReportUpTo(enqueued_));
  // No step carries what rank 0 decided after the last words were read.
  return travels_ ? AgreeWithRankZero(exec_, decision_) : absl::OkStatus();
}

}  // namespace kinora
