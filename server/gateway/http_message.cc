#include "server/gateway/http_message.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"

namespace kinora {
namespace {

// Sent with every reply that does not set them. No page of another origin may read, frame or embed a reply, and a
// browser runs nothing in one.
constexpr std::pair<const char*, const char*> kSecurityFields[] = {
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

bool IsControl(char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }

absl::StatusOr<std::string> Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const bool escape = i + 2 < text.size() && absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
                          absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]));
      if (!escape) return absl::InvalidArgumentError("the query has a % that two hexadecimal digits do not follow");
      const std::string_view digits = text.substr(i + 1, 2);
      out += absl::HexStringToBytes(absl::string_view(digits.data(), digits.size()));
      i += 2;
    }
  }
  if (std::any_of(out.begin(), out.end(), IsControl)) {
    return absl::InvalidArgumentError("the query contains a control character");
  }
  if (FindInvalidUtf8(out) >= 0) return absl::InvalidArgumentError("the query is not UTF-8");
  return out;
}

std::string FieldValue(std::string_view value) {
  std::string out(value);
  std::replace_if(out.begin(), out.end(), IsControl, ' ');
  return out;
}

}  // namespace

const std::string* HttpRequestHead::Find(std::string_view name) const {
  for (const HttpField& field : fields) {
    if (absl::EqualsIgnoreCase(field.name, absl::string_view(name.data(), name.size()))) return &field.value;
  }
  return nullptr;
}

std::string_view HttpReason(int status) {
  static constexpr std::pair<int, const char*> kReasons[] = {{200, "OK"},
                                                             {204, "No Content"},
                                                             {206, "Partial Content"},
                                                             {302, "Found"},
                                                             {304, "Not Modified"},
                                                             {400, "Bad Request"},
                                                             {401, "Unauthorized"},
                                                             {403, "Forbidden"},
                                                             {404, "Not Found"},
                                                             {405, "Method Not Allowed"},
                                                             {408, "Request Timeout"},
                                                             {409, "Conflict"},
                                                             {410, "Gone"},
                                                             {411, "Length Required"},
                                                             {412, "Precondition Failed"},
                                                             {413, "Content Too Large"},
                                                             {415, "Unsupported Media Type"},
                                                             {416, "Range Not Satisfiable"},
                                                             {417, "Expectation Failed"},
                                                             {421, "Misdirected Request"},
                                                             {422, "Unprocessable Content"},
                                                             {429, "Too Many Requests"},
                                                             {431, "Request Header Fields Too Large"},
                                                             {499, "Client Closed Request"},
                                                             {500, "Internal Server Error"},
                                                             {501, "Not Implemented"},
                                                             {502, "Bad Gateway"},
                                                             {503, "Service Unavailable"},
                                                             {504, "Gateway Timeout"},
                                                             {507, "Insufficient Storage"}};
  for (const auto& [code, reason] : kReasons) {
    if (code == status) return reason;
  }
  return "";
}

absl::StatusOr<std::map<std::string, std::string>> ParseQuery(std::string_view query) {
  std::map<std::string, std::string> out;
  for (const absl::string_view part : absl::StrSplit(absl::string_view(query.data(), query.size()), '&')) {
    if (part.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    KINORA_ASSIGN_OR_RETURN(std::string name, Unescape({pair.first.data(), pair.first.size()}));
    KINORA_ASSIGN_OR_RETURN(std::string value, Unescape({pair.second.data(), pair.second.size()}));
    if (!out.emplace(name, std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": is in the query twice"));
    }
  }
  return out;
}

std::string HttpReplyHead(int status, const std::vector<HttpField>& fields) {
  std::string head = absl::StrCat("HTTP/1.1 ", status, " ", std::string(HttpReason(status)), "\r\n");
  const auto add = [&head](std::string_view name, std::string_view value) {
    absl::StrAppend(&head, std::string(name), ": ", FieldValue(value), "\r\n");
  };
  for (const HttpField& field : fields) add(field.name, field.value);
  add("Date", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", Clock::Real().Now(), absl::UTCTimeZone()));
  for (const auto& [name, value] : kSecurityFields) {
    const bool given = std::any_of(fields.begin(), fields.end(), [name = name](const HttpField& field) {
      return absl::EqualsIgnoreCase(field.name, name);
    });
    if (!given) add(name, value);
  }
  return head;
}

}  // namespace kinora
