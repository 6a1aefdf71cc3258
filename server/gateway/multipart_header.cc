#include "server/gateway/multipart_header.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"
#include "server/common/status_details.h"
#include "server/gateway/error_body.h"

namespace kinora {
namespace {

constexpr size_t kMaxBoundary = 70;  // RFC 2046 §5.1.1

// A header value of the form TYPE; NAME=VALUE; NAME="VALUE".
struct HeaderValue {
  std::string type;  // in lower case
  std::map<std::string, std::string> parameters;
};

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f && std::string_view("()<>@,;:\\\"/[]?=").find(static_cast<char>(c)) == std::string::npos;
  });
}

// Takes a quoted string from the front of `text`, which begins with its quote. Only \" and \\ are escapes: old browsers
// send paths with single backslashes.
bool TakeQuoted(std::string_view& text, std::string& value) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
    const bool escape = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\');
    value += text[escape ? ++i : i];
  }
  return false;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// Takes "; NAME=VALUE" from the front.
absl::Status TakeParameter(std::string_view& text, HeaderValue& out) {
  text.remove_prefix(1);  // the semicolon
  text = Trimmed(text);
  if (text.empty()) return absl::OkStatus();  // a semicolon at the end
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return MalformedBody("a parameter of a header has no value");
  const std::string name = absl::AsciiStrToLower(std::string(Trimmed(text.substr(0, equals))));
  text = Trimmed(text.substr(equals + 1));
  std::string value;
  if (!text.empty() && text[0] == '"') {
    if (!TakeQuoted(text, value)) return MalformedBody("a quoted value of a header does not end");
  } else {
    const size_t end = std::min(text.find(';'), text.size());
    value = std::string(Trimmed(text.substr(0, end)));
    text.remove_prefix(end);
  }
  text = Trimmed(text);
  if (!IsToken(name) || (!text.empty() && text[0] != ';')) return MalformedBody("a header's parameters are malformed");
  if (!out.parameters.emplace(name, value).second) return MalformedBody("a header has the same parameter twice");
  return absl::OkStatus();
}

absl::StatusOr<HeaderValue> ParseHeaderValue(std::string_view text) {
  HeaderValue out;
  const size_t end = std::min(text.find(';'), text.size());
  out.type = absl::AsciiStrToLower(std::string(Trimmed(text.substr(0, end))));
  text.remove_prefix(end);
  while (!text.empty()) KINORA_RETURN_IF_ERROR(TakeParameter(text, out));
  return out;
}

// What browsers escape in names (WHATWG HTML, multipart/form-data encoding algorithm).
std::string Unescaped(const std::string& name) {
  return absl::StrReplaceAll(name, {{"%22", "\""}, {"%0D", "\r"}, {"%0A", "\n"}});
}

absl::Status CheckName(std::string_view what, std::string_view name, size_t most) {
  if (name.size() > most) return MalformedBody(absl::StrCat(std::string(what), " has more than ", most, " bytes"));
  if (FindInvalidUtf8(name) >= 0) return MalformedBody(absl::StrCat(std::string(what), " is not UTF-8"));
  const bool control = std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
  return control ? MalformedBody(absl::StrCat(std::string(what), " contains a control character")) : absl::OkStatus();
}

using Headers = std::map<std::string, std::string>;  // names in lower case

absl::StatusOr<Headers> SplitHeaders(std::string_view block) {
  Headers headers;
  const std::vector<std::string> lines = absl::StrSplit(std::string(block), "\r\n");
  for (const std::string& line : lines) {
    const size_t colon = line.find(':');
    const std::string_view name = std::string_view(line).substr(0, std::min(colon, line.size()));
    if (colon == std::string::npos || !IsToken(name)) return MalformedBody("a header of a part is malformed");
    const std::string value(Trimmed(std::string_view(line).substr(colon + 1)));
    if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
      return MalformedBody("a header of a part is malformed");
    }
    if (!headers.emplace(absl::AsciiStrToLower(std::string(name)), value).second) {
      return MalformedBody("a part has the same header twice");
    }
  }
  return headers;
}

}  // namespace

absl::Status MalformedBody(std::string_view message) {
  return WithErrorInfo(absl::InvalidArgumentError(std::string(message)), kMalformedBody);
}

absl::StatusOr<std::string> MultipartBoundary(std::string_view content_type) {
  KINORA_ASSIGN_OR_RETURN(const HeaderValue value, ParseHeaderValue(content_type));
  if (value.type != "multipart/form-data") return MalformedBody("Content-Type is not multipart/form-data");
  const auto found = value.parameters.find("boundary");
  if (found == value.parameters.end()) return MalformedBody("Content-Type has no boundary");
  const std::string& boundary = found->second;
  const bool allowed = std::all_of(boundary.begin(), boundary.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
  });
  if (boundary.empty() || boundary.size() > kMaxBoundary || !allowed || boundary.back() == ' ') {
    return MalformedBody("the boundary in Content-Type is not valid (RFC 2046)");
  }
  return boundary;
}

absl::StatusOr<PartHeader> ParsePartHeader(std::string_view block, size_t name_bytes) {
  KINORA_ASSIGN_OR_RETURN(const Headers headers, SplitHeaders(block));
  const auto disposition = headers.find("content-disposition");
  if (disposition == headers.end()) return MalformedBody("a part has no Content-Disposition");
  KINORA_ASSIGN_OR_RETURN(const HeaderValue value, ParseHeaderValue(disposition->second));
  const auto name = value.parameters.find("name");
  if (value.type != "form-data" || name == value.parameters.end() || name->second.empty()) {
    return MalformedBody("a part's Content-Disposition is not form-data with a name");
  }
  PartHeader part{.name = Unescaped(name->second), .filename = std::nullopt, .content_type = ""};
  KINORA_RETURN_IF_ERROR(CheckName("the name of a part", part.name, name_bytes));
  for (const char* parameter : {"filename", "filename*"}) {  // the second is against RFC 7578, but is sent
    const auto file = value.parameters.find(parameter);
    if (file == value.parameters.end() || part.filename.has_value()) continue;
    part.filename = Unescaped(file->second);
    KINORA_RETURN_IF_ERROR(CheckName("the file name of a part", *part.filename, name_bytes));
  }
  if (const auto type = headers.find("content-type"); type != headers.end()) part.content_type = type->second;
  if (const auto encoding = headers.find("content-transfer-encoding"); encoding != headers.end()) {
    const std::string lower = absl::AsciiStrToLower(encoding->second);
    if (lower != "binary" && lower != "8bit" && lower != "7bit") {
      return MalformedBody(absl::StrCat("part ", part.name, ": send its bytes without Content-Transfer-Encoding"));
    }
  }
  return part;
}

}  // namespace kinora
