#include "engine/base/logging.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kinora {
namespace {

LogOptions g_options;

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

// JSON string contents; key=value quotes the same way, so one escape serves both.
std::string Escaped(std::string_view text) {
  std::string out;
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\u%04x", c);
      out += buffer;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

bool NeedsQuotes(std::string_view text) {
  return text.empty() || text.find_first_of(" =\"\\\n\t") != std::string_view::npos;
}

}  // namespace

void SetLogOptions(const LogOptions& options) { g_options = options; }

std::string FormatLogLine(LogFormat format, Severity severity, std::string_view event,
                          std::initializer_list<LogField> fields) {
  std::string line;
  if (format == LogFormat::kJson) {
    line = absl::StrCat("\"level\":\"", Name(severity), "\",\"event\":\"", Escaped(event), "\"");
    for (const auto& [key, value] : fields) absl::StrAppend(&line, ",\"", Escaped(key), "\":\"", Escaped(value), "\"");
    return line;
  }
  line = absl::StrCat("level=", Name(severity), " event=", std::string(event));
  for (const auto& [key, value] : fields) {
    absl::StrAppend(&line, " ", std::string(key), "=",
                    NeedsQuotes(value) ? absl::StrCat("\"", Escaped(value), "\"") : value);
  }
  return line;
}

void Log(Severity severity, std::string_view event, std::initializer_list<LogField> fields) {
  if (severity < g_options.minimum) return;
  const std::string time = absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone());
  const std::string body = FormatLogLine(g_options.format, severity, event, fields);
  const std::string line = g_options.format == LogFormat::kJson ? absl::StrCat("{\"time\":\"", time, "\",", body, "}\n")
                                                                : absl::StrCat("time=", time, " ", body, "\n");
  // A log that cannot be written has nowhere to be reported.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace kinora
