#include "engine/base/logging.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/log_queue.h"
#include "engine/base/utf8.h"

namespace kinora {
namespace {

// Never destroyed: threads may log until the process exits.
LogOptions& Options() {
  static auto* const options = new LogOptions;
  return *options;
}

constexpr int64_t kMostQueuedBytes = 1 << 20;
constexpr absl::Duration kPatience = absl::Seconds(1);

std::atomic<LogQueue*> g_queue = nullptr;  // null: Log writes directly

const char* Name(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return "debug";
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "unknown";
}

bool IsControl(unsigned char c) { return c < 0x20 || c == 0x7f; }

// U+0080..U+009F, which terminals interpret too: "\x9b" is "\x1b[".
bool IsC1Control(std::string_view text, size_t at) {
  if (at + 1 >= text.size() || text[at] != '\xc2') return false;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  return second >= 0x80 && second <= 0x9f;
}

std::string Escape(unsigned char code) {
  char buffer[8];
  std::snprintf(buffer, sizeof(buffer), "\\u%04x", code);
  return buffer;
}

// Replaces each byte that is not part of well-formed UTF-8 by '?'.
std::string Utf8(std::string_view text) {
  std::string out(text);
  for (size_t begin = 0; begin < out.size();) {
    const int64_t wrong = FindInvalidUtf8(std::string_view(out).substr(begin));
    if (wrong < 0) break;
    begin += wrong;
    out[begin++] = '?';
  }
  return out;
}

// JSON string contents; key=value quotes the same way, so one escape serves both.
std::string Escaped(std::string_view text) {
  std::string out;
  const std::string characters = Utf8(text);
  for (size_t i = 0; i < characters.size(); ++i) {
    const auto c = static_cast<unsigned char>(characters[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (IsControl(c)) {
      out += Escape(c);
    } else if (IsC1Control(characters, i)) {
      out += Escape(static_cast<unsigned char>(characters[++i]));
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

bool NeedsQuotes(std::string_view text) {
  if (text.empty() || FindInvalidUtf8(text) >= 0) return true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (IsControl(c) || IsC1Control(text, i) || c == ' ' || c == '=' || c == '"' || c == '\\') return true;
  }
  return false;
}

std::string Quoted(std::string_view text) { return absl::StrCat("\"", Escaped(text), "\""); }

// Limits strings, which may come from untrusted clients, so that none can fill the log. This program or a library
// composes "why" and "says", which end with the remedy.
size_t MostBytes(std::string_view key) {
  constexpr size_t kString = 200, kSentence = 2000;
  return key == "why" || key == "says" ? kSentence : kString;
}

// "begin…(+1234 bytes)" if it is longer than `most`.
std::string Shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const auto continues = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  size_t end = most;
  while (end > most - 4 && continues(end)) --end;  // a character has at most 4 bytes
  if (continues(end)) end = most;                  // not UTF-8
  return absl::StrCat(text.substr(0, end), "…(+", text.size() - end, " bytes)");
}

// `,"key":value` or ` key=value`
std::string ToText(LogFormat format, const LogField& field) {
  const auto& [key, value] = field;
  const std::string text = Shortened(value.text(), MostBytes(key));
  if (format == LogFormat::kJson) {
    return absl::StrCat(",", Quoted(key), ":", value.is_number() ? text : Quoted(text));
  }
  return absl::StrCat(" ", std::string(key), "=", NeedsQuotes(text) ? Quoted(text) : text);
}

// A record with time and newline.
std::string Line(Severity severity, std::string_view event, std::initializer_list<LogField> fields) {
  const LogOptions& options = Options();
  const std::string time = absl::FormatTime(absl::RFC3339_full, Clock::Real().Now(), absl::UTCTimeZone());
  const std::string body = FormatLogLine(options, severity, event, fields);
  return options.format == LogFormat::kJson ? absl::StrCat("{\"time\":\"", time, "\",", body, "}\n")
                                            : absl::StrCat("time=", time, " ", body, "\n");
}

}  // namespace

void SetLogOptions(LogOptions options) { Options() = std::move(options); }

std::string FormatLogLine(const LogOptions& options, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields) {
  const LogFormat format = options.format;
  std::string line = ToText(format, {"level", Name(severity)}).substr(1);  // without the separator
  for (const LogField& field : options.process) line += ToText(format, field);
  line += ToText(format, {"event", event});
  for (const LogField& field : fields) line += ToText(format, field);
  return line;
}

void Log(Severity severity, std::string_view event, std::initializer_list<LogField> fields) {
  if (severity < Options().minimum) return;
  std::string line = Line(severity, event, fields);
  if (LogQueue* const queue = g_queue; queue != nullptr) return queue->Add(std::move(line));
  // A log that cannot be written has nowhere to be reported.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void StartLogThread() {
  g_queue = new LogQueue(STDERR_FILENO, kMostQueuedBytes, [](int64_t lines) {
    return Line(Severity::kWarning, "log_lines_dropped", {{"lines", lines}, {"why", "stderr is not read"}});
  });
  std::atexit(FlushLog);
}

namespace {

bool Flushed() {
  LogQueue* const queue = g_queue;
  return queue == nullptr || queue->Flush(kPatience);
}

}  // namespace

void FlushLog() { Flushed(); }

int64_t DroppedLogLines() {
  const LogQueue* const queue = g_queue;
  return queue == nullptr ? 0 : queue->dropped();
}

void SayAtLast(std::string_view text) {
  pollfd writable{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (!Flushed() || poll(&writable, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) != 1) return;
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace kinora
