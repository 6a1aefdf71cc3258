// Where the time goes, in the Chrome trace format (chrome://tracing, ui.perfetto.dev): one track per rank, one lane in
// it per thread, spans nested by time. Off until StartTrace, and then a span costs two clock reads and a lock; off
// it costs one load.
//   TraceSpan span("stage", "decode_video");
#ifndef KINORA_ENGINE_BASE_TRACE_H_
#define KINORA_ENGINE_BASE_TRACE_H_

#include <atomic>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kinora {

namespace internal {
extern std::atomic<bool> g_tracing;
}  // namespace internal

void StartTrace();  // forgets earlier spans; process-wide, and of processes forked from now on
inline bool Tracing() { return internal::g_tracing.load(std::memory_order_relaxed); }

// The calling thread works for this rank from now on, of which the trace has a track; for 0 before.
void SetTraceRank(int rank);
// For spans whose end is known afterwards. Kept only while tracing, the first four million of them.
void AddTraceSpan(const char* category, std::string name, absl::Time begin, absl::Time end);

absl::Time TraceStart();  // when StartTrace was called
// Stops and returns the JSON: {"traceEvents": [...]}.
std::string StopTrace();

// Of ranks that are other processes: what one has recorded, as StopTrace there would have it, and its place in this
// process's trace, before StopTrace. zero: TraceStart of the process that writes the trace.
std::string StopTrack(absl::Time zero);
void AddTrack(const std::string& track);

class TraceSpan {
 public:
  // name: any text that outlives the span. The pretty name of a function is cut to its last part, "Matmul".
  TraceSpan(const char* category, const char* name)
      : category_(category), name_(name), begin_(Tracing() ? absl::Now() : absl::InfinitePast()) {}
  ~TraceSpan() {
    if (begin_ != absl::InfinitePast()) Finish();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  void Finish() const;

  const char* category_;
  const char* name_;
  absl::Time begin_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_TRACE_H_
