// Traces in the Chrome trace format (chrome://tracing, ui.perfetto.dev): one track per rank, one lane in it per thread,
// spans nested by time. Off until StartTrace. A span costs one load when off, two clock reads and a lock when on. A
// name is a kind, so that viewers add up equal kinds; numbers are arguments.
//   TraceSpan span("stage", "decode_video");
#ifndef KINORA_ENGINE_BASE_TRACE_H_
#define KINORA_ENGINE_BASE_TRACE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace kinora {

namespace internal {
extern std::atomic<bool> g_tracing;
}  // namespace internal

// Discards earlier spans. Affects this process and processes forked from now on.
void StartTrace();
inline bool Tracing() { return internal::g_tracing.load(std::memory_order_relaxed); }

// The work of an op: a product of [m, k] by [k, n], and floating-point operations as DryOps counts them. 0: not a
// product, or not counted.
struct OpWork {
  int64_t m = 0, n = 0, k = 0;
  int64_t flop = 0;
};

// The thread's position in the model.
struct TracePlace {
  int64_t block = -1;            // of a transformer, from 0; −1: outside of any
  const char* passes = nullptr;  // guidance passes that run through it together, "uncond,cond"; null: none
};

// An event's arguments. Defaults are not written.
struct TraceArgs {
  OpWork work{};
  TracePlace place{};
  int64_t step = 0;            // from 1
  const char* axis = nullptr;  // of the mesh; null: none
};

namespace internal {
extern constinit thread_local TracePlace t_place;
}  // namespace internal

// While it lives, the spans that the thread records and the ops that it enqueues belong to this block or these passes;
// fields that are not set keep the enclosing place's values.
class InTracePlace {
 public:
  explicit InTracePlace(const TracePlace& place) : around_(internal::t_place) {
    if (place.block >= 0) internal::t_place.block = place.block;
    if (place.passes != nullptr) internal::t_place.passes = place.passes;
  }
  ~InTracePlace() { internal::t_place = around_; }
  InTracePlace(const InTracePlace&) = delete;
  InTracePlace& operator=(const InTracePlace&) = delete;

 private:
  const TracePlace around_;
};

// Returns the arguments of an op that the thread enqueues now.
inline TraceArgs TraceHere(const OpWork& work) { return {.work = work, .place = internal::t_place}; }

// Interns `text` for TraceArgs, which do not own strings: the result is valid until the process exits. Never freed, so
// pass few distinct texts.
const char* TraceText(const std::string& text);

// Records the calling thread's spans in this rank's track (before the first call: 0) and names its lane; lane must
// outlive the trace.
void SetTraceRank(int rank, const char* lane = "pipeline");
// Records a span after its end. Does nothing unless tracing; drops spans after the first two million.
void AddTraceSpan(const char* category, std::string name, absl::Time begin, absl::Time end, const TraceArgs& args = {});

absl::Time TraceNow();    // the clock of all spans: the date, which the hosts of a group share
absl::Time TraceStart();  // when StartTrace was called
// Stops tracing and returns the JSON: {"traceEvents": [...]}.
std::string StopTrace();

// For ranks in other processes: StopTrack stops tracing there and returns the process's spans, and AddTrack adds them
// to this process's trace, before StopTrace. zero: TraceStart of the process that writes the trace.
std::string StopTrack(absl::Time zero);
void AddTrack(const std::string& track);

class TraceSpan {
 public:
  // name and work must outlive the span; category must outlive the trace.
  TraceSpan(const char* category, const char* name, const OpWork* work = nullptr)
      : category_(category), name_(name), work_(work), begin_(Tracing() ? TraceNow() : absl::InfinitePast()) {}
  ~TraceSpan() {
    if (begin_ != absl::InfinitePast()) Finish();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  void Finish() const;

  const char* category_;
  const char* name_;
  const OpWork* work_;
  absl::Time begin_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_TRACE_H_
