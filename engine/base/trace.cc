#include "engine/base/trace.h"

#include <cstdio>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace kinora {
namespace internal {
std::atomic<bool> g_tracing{false};
}  // namespace internal

namespace {

constexpr size_t kMaxSpans = 4 << 20;  // some 300 MB; a clip of 30 steps has a tenth of it

struct Span {
  const char* category;
  std::string name;
  int rank, thread;
  absl::Time begin, end;
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

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

// "virtual void kinora::CpuOps::Matmul(const Tensor&, …) [with T = float]" -> "Matmul"
std::string ShortName(std::string_view name) {
  const size_t parenthesis = name.find('(');
  if (parenthesis == std::string_view::npos) return std::string(name);
  name = name.substr(0, parenthesis);
  const size_t start = name.find_last_of(": ");
  return std::string(start == std::string_view::npos ? name : name.substr(start + 1));
}

}  // namespace

void StartTrace() {
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  recorder.start = absl::Now();
  recorder.spans.clear();
  recorder.tracks.clear();
  recorder.dropped = 0;
  internal::g_tracing = true;
}

void SetTraceRank(int rank) { t_rank = rank; }

void AddTraceSpan(const char* category, std::string name, absl::Time begin, absl::Time end) {
  if (!Tracing()) return;
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  if (recorder.spans.size() >= kMaxSpans) {
    ++recorder.dropped;
    return;
  }
  recorder.spans.push_back({category, std::move(name), t_rank, ThreadNumber(), begin, end});
}

void TraceSpan::Finish() const { AddTraceSpan(category_, ShortName(name_), begin_, absl::Now()); }

absl::Time TraceStart() {
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  return recorder.start;
}

// Events, with a comma after each.
std::string StopTrack(absl::Time zero) {
  internal::g_tracing = false;
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  std::string out;
  std::set<int> ranks;
  char times[96];
  for (const Span& span : recorder.spans) {  // the format counts microseconds
    ranks.insert(span.rank);
    std::snprintf(times, sizeof times, R"("ts":%.3f,"dur":%.3f)", absl::ToDoubleMicroseconds(span.begin - zero),
                  absl::ToDoubleMicroseconds(span.end - span.begin));
    absl::StrAppend(&out, R"({"ph":"X","cat":")", span.category, R"(","name":)", JsonString(span.name), R"(,"pid":)",
                    span.rank, R"(,"tid":)", span.thread, ",", times, "},\n");
  }
  for (const int rank : ranks) {
    const auto say = [&](const char* what, const std::string& value) {
      absl::StrAppend(&out, R"({"ph":"M","name":"process_)", what, R"(","pid":)", rank, R"(,"args":{")", what, R"(":)",
                      value, "}},\n");
    };
    say("name", absl::StrCat("\"rank ", rank, "\""));
    say("sort_index", absl::StrCat(rank));
    if (recorder.dropped > 0)
      say("labels", absl::StrCat("\"", recorder.dropped, " spans beyond the most were dropped\""));
  }
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
