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

// A text or a number. JSON writes a number as one, unless its reader's double would round it: an integer beyond ±2^53,
// and what is not finite, are strings.
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
  // In every record, before its event: which process speaks. {"process", "worker"}, {"group", "0"}, {"rank", 1}.
  std::vector<LogField> process;
};
void SetLogOptions(LogOptions options);  // call before threads start

// Thread-safe; the record is one write(2), so lines of several processes do not mix.
void Log(Severity severity, std::string_view event, std::initializer_list<LogField> fields = {});

// The line as it would be written, without time and newline; what Log prints after its time stamp.
std::string FormatLogLine(const LogOptions& options, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_LOGGING_H_
