#include "engine/base/trace.h"

#include <cstdio>
#include <map>
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
  int thread;
  int64_t begin_ns, duration_ns;
};

struct Recorder {
  absl::Mutex mu;
  absl::Time start ABSL_GUARDED_BY(mu);
  std::vector<Span> spans ABSL_GUARDED_BY(mu);
  std::map<int, std::string> thread_names ABSL_GUARDED_BY(mu);
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
  recorder.dropped = 0;
  internal::g_tracing = true;
}

void NameTraceThread(std::string name) {
  if (!Tracing()) return;
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  recorder.thread_names[ThreadNumber()] = std::move(name);
}

void AddTraceSpan(const char* category, std::string name, absl::Time begin, absl::Time end) {
  if (!Tracing()) return;
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  if (recorder.spans.size() >= kMaxSpans) {
    ++recorder.dropped;
    return;
  }
  recorder.spans.push_back({category, std::move(name), ThreadNumber(), absl::ToInt64Nanoseconds(begin - recorder.start),
                            absl::ToInt64Nanoseconds(end - begin)});
}

void TraceSpan::Finish() const { AddTraceSpan(category_, ShortName(name_), begin_, absl::Now()); }

std::string StopTrace() {
  internal::g_tracing = false;
  Recorder& recorder = TheRecorder();
  absl::MutexLock lock(&recorder.mu);
  std::string out = "{\"traceEvents\":[";
  const char* separator = "\n";
  for (const auto& [thread, name] : recorder.thread_names) {
    absl::StrAppend(&out, separator, R"({"ph":"M","name":"thread_name","pid":1,"tid":)", thread, R"(,"args":{"name":)",
                    JsonString(name), "}}");
    separator = ",\n";
  }
  char times[96];
  for (const Span& span : recorder.spans) {  // the format counts microseconds
    std::snprintf(times, sizeof times, R"("ts":%.3f,"dur":%.3f})", span.begin_ns / 1e3, span.duration_ns / 1e3);
    absl::StrAppend(&out, separator, R"({"ph":"X","cat":")", span.category, R"(","name":)", JsonString(span.name),
                    R"(,"pid":1,"tid":)", span.thread, ",", times);
    separator = ",\n";
  }
  absl::StrAppend(&out, "\n],\"displayTimeUnit\":\"ms\",\"droppedSpans\":", recorder.dropped, "}\n");
  recorder.spans.clear();
  return out;
}

}  // namespace kinora
