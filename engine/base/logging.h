// One line per record on stderr: key=value (default) or JSON. Never log a prompt.
//   Log(Severity::kInfo, "job_started", {{"job", id}, {"attempt", attempt}});
#ifndef KINORA_ENGINE_BASE_LOGGING_H_
#define KINORA_ENGINE_BASE_LOGGING_H_

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kinora {

enum class Severity { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kKeyValue, kJson };

// A string or a number. JSON writes a number as a number unless a reader's double would round it: integers beyond
// ±2^53 and non-finite values are strings.
class LogValue {
 public:
  LogValue(std::string text) : text_(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  LogValue(std::string_view text) : text_(text) {}        // NOLINT(google-explicit-constructor)
  LogValue(const char* text) : text_(text) {}             // NOLINT(google-explicit-constructor)
  template <typename Number, std::enable_if_t<std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>, int> = 0>
  LogValue(Number number)  // NOLINT(google-explicit-constructor)
      : text_(absl::StrCat(number)), is_number_(FitsDouble(number)) {}

  const std::string& text() const { return text_; }
  bool is_number() const { return is_number_; }

 private:
  template <typename Number>
  static bool FitsDouble(Number number) {
    if constexpr (std::is_floating_point_v<Number>) return std::isfinite(number);
    constexpr int64_t kExact = int64_t{1} << 53;
    if constexpr (std::is_signed_v<Number>) return number >= -kExact && number <= kExact;
    return static_cast<uint64_t>(number) <= static_cast<uint64_t>(kExact);
  }

  std::string text_;
  bool is_number_ = false;
};
using LogField = std::pair<std::string_view, LogValue>;

struct LogOptions {
  LogFormat format = LogFormat::kKeyValue;
  Severity minimum = Severity::kInfo;
  // Fields of every record, before its event, that identify the process: {"process", "worker"}, {"group", "0"},
  // {"rank", 1}.
  std::vector<LogField> process;
};
void SetLogOptions(LogOptions options);  // call before threads start

// Starts the thread that writes the lines from now on, so that Log never blocks on stderr. While nobody reads stderr,
// lines beyond 1 MiB are dropped, counted, and replaced by a record `log_lines_dropped`. Pending lines are written when
// the process exits; before _exit, call FlushLog. Call once, and not before a fork.
void StartLogThread();
// Waits until pending lines are written, at most one second: an unread stderr does not delay the exit further.
void FlushLog();
int64_t DroppedLogLines();
// Writes a process's last message to stderr after all pending lines, unless nobody reads stderr. Allocates nothing.
void SayAtLast(std::string_view text);

// Thread-safe. A record is one write(2), so lines of several processes do not mix.
void Log(Severity severity, std::string_view event, std::initializer_list<LogField> fields = {});

// Returns the line that Log prints after its time stamp, without the newline.
std::string FormatLogLine(const LogOptions& options, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_LOGGING_H_
