#include "engine/base/logging.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/utf8.h"

namespace kinora {
namespace {

// Never destroyed: threads may have something to say until the process has ended.
LogOptions& Options() {
  static auto* const options = new LogOptions;
  return *options;
}

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

// U+0080..U+009F, which terminals obey as well: "\x9b" is "\x1b[".
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

// With a '?' for each byte that is part of no character.
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

// `,"key":value` or ` key=value`
std::string ToText(LogFormat format, const LogField& field) {
  const auto& [key, value] = field;
  if (format == LogFormat::kJson) {
    return absl::StrCat(",", Quoted(key), ":", value.is_number() ? value.text() : Quoted(value.text()));
  }
  return absl::StrCat(" ", std::string(key), "=", NeedsQuotes(value.text()) ? Quoted(value.text()) : value.text());
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
  const LogOptions& options = Options();
  if (severity < options.minimum) return;
  const std::string time = absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone());
  const std::string body = FormatLogLine(options, severity, event, fields);
  const std::string line = options.format == LogFormat::kJson ? absl::StrCat("{\"time\":\"", time, "\",", body, "}\n")
                                                              : absl::StrCat("time=", time, " ", body, "\n");
  // A log that cannot be written has nowhere to be reported.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace kinora
