#include "server/gateway/data_url.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr char kScheme[] = "data:";
constexpr size_t kSchemeSize = sizeof(kScheme) - 1;
constexpr size_t kLongestHeader = 256;  // before the comma
constexpr size_t kLongestMediaType = 200;
constexpr char kForm[] = "must be a data: URL of the form data:TYPE;base64,DATA or data:TYPE,PERCENT-ENCODED-DATA";

absl::Status Malformed() { return absl::InvalidArgumentError(kForm); }

constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";  // of a token, RFC 9110

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kMarks.find(c) != std::string_view::npos;
  });
}

bool IsMediaTypeName(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && text.size() <= kLongestMediaType && IsToken(text.substr(0, slash)) &&
         IsToken(text.substr(slash + 1));
}

// Control characters, spaces and "#" are not part of a URL's data; base64 may be broken into lines.
absl::StatusOr<std::string> PercentDecoded(std::string_view text, bool base64) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '%') {
      const bool whole = i + 2 < text.size() && absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
                         absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]));
      if (!whole) return Malformed();
      out += absl::HexStringToBytes(absl::string_view(text.data() + i + 1, 2));
      i += 2;
    } else if (base64 && absl::ascii_isspace(c)) {
      continue;
    } else if (c <= ' ' || c >= 0x7f || c == '#') {
      return Malformed();
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

}  // namespace

bool IsDataUrl(std::string_view text) {
  return absl::StartsWithIgnoreCase(absl::string_view(text.data(), text.size()), kScheme);
}

absl::StatusOr<DataUrl> ParseDataUrl(std::string_view text) {
  const size_t comma = text.find(',');
  if (!IsDataUrl(text) || comma == std::string_view::npos || comma > kLongestHeader) return Malformed();
  const std::vector<std::string> header =
      absl::StrSplit(absl::AsciiStrToLower(absl::string_view(text.data() + kSchemeSize, comma - kSchemeSize)), ';');
  const bool base64 = header.size() > 1 && header.back() == "base64";
  if (!header[0].empty() && !IsMediaTypeName(header[0])) return Malformed();
  KINORA_ASSIGN_OR_RETURN(std::string bytes, PercentDecoded(text.substr(comma + 1), base64));
  DataUrl url{.media_type = header[0], .bytes = {}};
  if (!base64) {
    url.bytes = std::move(bytes);
  } else if (!absl::Base64Unescape(bytes, &url.bytes)) {
    return absl::InvalidArgumentError("the data of its data: URL is not base64");
  }
  if (url.bytes.empty()) return absl::InvalidArgumentError("its data: URL has no data");
  return url;
}

}  // namespace kinora
