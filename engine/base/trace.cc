#include "engine/base/trace.h"

#include <cstdio>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"

namespace kinora {
namespace internal {
std::atomic<bool> g_tracing{false};
constinit thread_local TracePlace t_place;
}  // namespace internal

namespace {

constexpr size_t kMaxSpans = 2 << 20;  // about 350 MB; a clip of 30 steps needs a tenth of it

struct Span {
  const char* category;
  std::string name;
  int rank, thread;
  const char* thread_name;  // null: unnamed
  absl::Time begin, end;
  TraceArgs args;
};

struct Recorder {
  absl::Mutex mu;
  absl::Time start ABSL_GUARDED_BY(mu);
  std::vector<Span> spans ABSL_GUARDED_BY(mu);
  std::string tracks ABSL_GUARDED_BY(mu);  // of other processes
  int64_t dropped ABSL_GUARDED_BY(mu) = 0;
};

Recorder& TheRecorder() {
  static Recorder* recorder = new Recorder;  // never destroyed: threads may outlive main's statics
  return *recorder;
}

int ThreadNumber() {
  static std::atomic<int> next{0};
  thread_local const int number = next++;
  return number;
}

thread_local int t_rank = 0;
thread_local const char* t_thread_name = nullptr;

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

// `,"args":{…}`, or nothing.
std::string ArgsJson(const TraceArgs& args) {
  std::vector<std::string> parts;
  const auto number = [&](const char* name, int64_t value, bool said) {
    if (said) parts.push_back(absl::StrCat("\"", name, "\":", value));
  };
  const auto text = [&](const char* name, const char* value) {
    if (value != nullptr) parts.push_back(absl::StrCat("\"", name, "\":", JsonString(value)));
  };
  const OpWork& work = args.work;
  number("m", work.m, work.m > 0);
  number("n", work.n, work.n > 0);
  number("k", work.k, work.k > 0);
  number("flop", work.flop, work.flop > 0);
  number("block", args.place.block, args.place.block >= 0);
  text("passes", args.place.passes);
  number("step", args.step, args.step > 0);
  text("axis", args.axis);
  return parts.empty() ? "" : absl::StrCat(",\"args\":{", absl::StrJoin(parts, ","), "}");
}

// Viewers treat process 0 and thread 0 as the machine's idle ones, and thread numbers as unique on the machine, but
// each rank's process counts its own threads from 0.
int ProcessOf(int rank) { return rank + 1; }
int LaneOf(int rank, int thread) { return ProcessOf(rank) * 1000 + thread; }

std::string Metadata(const char* what, int rank, int lane, const std::string& key, const std::string& value) {
  return absl::StrCat(R"({"ph":"M","name":")", what, R"(","pid":)", ProcessOf(rank), R"(,"tid":)", lane,
                      R"(,"args":{")", key, R"(":)", value, "}},\n");
}

// Names of the processes and threads that have spans.
std::string TrackNames(const std::vector<Span>& spans, int64_t dropped) {
  std::map<int, std::map<int, const char*>> threads;  // by rank and thread; null: unnamed
  for (const Span& span : spans) {
    const char*& name = threads[span.rank][span.thread];
    if (span.thread_name != nullptr) name = span.thread_name;
  }
  std::string out;
  for (const auto& [rank, lanes] : threads) {
    const int first = LaneOf(rank, lanes.begin()->first);
    out += Metadata("process_name", rank, first, "name", absl::StrCat("\"rank ", rank, "\""));
    out += Metadata("process_sort_index", rank, first, "sort_index", absl::StrCat(rank));
    if (dropped > 0) {
      out += Metadata("process_labels", rank, first, "labels",
                      absl::StrCat("\"", dropped, " spans beyond the most were dropped\""));
    }
    for (const auto& [thread, name] : lanes) {
      const std::string named = name != nullptr ? name : absl::StrCat("thread ", thread);
      out += Metadata("thread_name", rank, LaneOf(rank, thread), "name", JsonString(named));
    }
  }
  return out;
}

}  // namespace

void StartTrace() {
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  recorder.start = TraceNow();
  recorder.spans.clear();
  recorder.tracks.clear();
  recorder.dropped = 0;
  internal::g_tracing = true;
}

const char* TraceText(const std::string& text) {
  static absl::Mutex* mu = new absl::Mutex;
  static auto* texts = new std::set<std::string>;
  absl::MutexLock lock(mu);
  return texts->insert(text).first->c_str();
}

void SetTraceRank(int rank, const char* lane) {
  t_rank = rank;
  t_thread_name = lane;
}

void AddTraceSpan(const char* category, std::string name, absl::Time begin, absl::Time end, const TraceArgs& args) {
  if (!Tracing()) return;
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  if (recorder.spans.size() >= kMaxSpans) {
    ++recorder.dropped;
    return;
  }
  recorder.spans.push_back({category, std::move(name), t_rank, ThreadNumber(), t_thread_name, begin, end, args});
}

void TraceSpan::Finish() const {
  AddTraceSpan(category_, name_, begin_, TraceNow(), TraceHere(work_ != nullptr ? *work_ : OpWork{}));
}

absl::Time TraceNow() { return Clock::Real().Now(); }

absl::Time TraceStart() {
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  return recorder.start;
}

// The track is a list of JSON events with a comma after each.
std::string StopTrack(absl::Time zero) {
  internal::g_tracing = false;
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  std::string out;
  char times[96];
  for (const Span& span : recorder.spans) {  // times are in microseconds
    std::snprintf(times, sizeof times, R"("ts":%.3f,"dur":%.3f)", absl::ToDoubleMicroseconds(span.begin - zero),
                  absl::ToDoubleMicroseconds(span.end - span.begin));
    absl::StrAppend(&out, R"({"ph":"X","cat":")", span.category, R"(","name":)", JsonString(span.name), R"(,"pid":)",
                    ProcessOf(span.rank), R"(,"tid":)", LaneOf(span.rank, span.thread), ",", times, ArgsJson(span.args),
                    "},\n");
  }
  out += TrackNames(recorder.spans, recorder.dropped);
  recorder.spans = {};
  return out;
}

void AddTrack(const std::string& track) {
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  recorder.tracks += track;
}

std::string StopTrace() {
  std::string events = StopTrack(TraceStart());
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  events += std::exchange(recorder.tracks, "");
  if (!events.empty()) events.resize(events.size() - 2);  // the last comma
  return absl::StrCat("{\"traceEvents\":[\n", events, "\n],\"displayTimeUnit\":\"ms\"}\n");
}

}  // namespace kinora
