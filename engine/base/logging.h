// One line a record on stderr: key=value (default) or JSON. Never log a prompt.
//   Log(Severity::kInfo, "job_started", {{"job", id}, {"attempt", absl::StrCat(attempt)}});
#ifndef KINORA_ENGINE_BASE_LOGGING_H_
#define KINORA_ENGINE_BASE_LOGGING_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace kinora {

enum class Severity { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kKeyValue, kJson };

struct LogOptions {
  LogFormat format = LogFormat::kKeyValue;
  Severity minimum = Severity::kInfo;
};
void SetLogOptions(const LogOptions& options);  // call before threads start

using LogField = std::pair<std::string_view, std::string>;

// Thread-safe; the record is one write(2), so lines of several processes do not mix.
void Log(Severity severity, std::string_view event, std::initializer_list<LogField> fields = {});

// The line as it would be written, without time and newline; what Log prints after its time stamp.
std::string FormatLogLine(LogFormat format, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields);

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_LOGGING_H_
