// Where the time goes, in the Chrome trace format (chrome://tracing, ui.perfetto.dev): one track per rank, one lane in
// it per thread, spans nested by time. Off until StartTrace, and then a span costs two clock reads and a lock; off
// it costs one load. Names are of kinds, so that a viewer adds up what belongs together; numbers are arguments.
//   TraceSpan span("stage", "decode_video");
#ifndef KINORA_ENGINE_BASE_TRACE_H_
#define KINORA_ENGINE_BASE_TRACE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kinora {

namespace internal {
extern std::atomic<bool> g_tracing;
}  // namespace internal

void StartTrace();  // forgets earlier spans; process-wide, and of processes forked from now on
inline bool Tracing() { return internal::g_tracing.load(std::memory_order_relaxed); }

// What an op computes: a product of [m, k] by [k, n], and its floating-point operations as DryOps counts them. 0: it is
// no product, or its operations are not counted.
struct OpWork {
  int64_t m = 0, n = 0, k = 0;
  int64_t flop = 0;
};

// Where in the model the thread is.
struct TracePlace {
  int64_t block = -1;            // of a transformer, from 0; −1: in none
  const char* passes = nullptr;  // guidance passes that go through it together, "uncond,cond"; null: none
};

// What an event says beside its name. What is left as it is here is not written.
struct TraceArgs {
  OpWork work{};
  TracePlace place{};
  int64_t step = 0;            // from 1
  const char* axis = nullptr;  // of the mesh
};

namespace internal {
extern constinit thread_local TracePlace t_place;
}  // namespace internal

// For as long as it lives, what the thread records, and what it enqueues to be run later, is of this block or pass, and
// for the rest of the place around it.
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

// What an op that the thread enqueues now says of itself.
inline TraceArgs TraceHere(const OpWork& work) { return {.work = work, .place = internal::t_place}; }

// The same text for as long as the process lives, for TraceArgs, which hold none. Texts are few.
const char* TraceText(const std::string& text);

// The calling thread works for this rank from now on, of which the trace has a track; for 0 before.
void SetTraceRank(int rank);
// For spans whose end is known afterwards. Kept only while tracing, the first two million of them.
void AddTraceSpan(const char* category, std::string name, absl::Time begin, absl::Time end, const TraceArgs& args = {});

absl::Time TraceStart();  // when StartTrace was called
// Stops and returns the JSON: {"traceEvents": [...]}.
std::string StopTrace();

// Of ranks that are other processes: what one has recorded, as StopTrace there would have it, and its place in this
// process's trace, before StopTrace. zero: TraceStart of the process that writes the trace.
std::string StopTrack(absl::Time zero);
void AddTrack(const std::string& track);

class TraceSpan {
 public:
  // name, work: outlive the span.
  TraceSpan(const char* category, const char* name, const OpWork* work = nullptr)
      : category_(category), name_(name), work_(work), begin_(Tracing() ? absl::Now() : absl::InfinitePast()) {}
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
