#include "server/common/token_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kinora {

absl::StatusOr<std::vector<std::string>> ParseTokens(std::string_view text) {
  constexpr char kByteOrderMark[] = "\xef\xbb\xbf";
  absl::string_view rest(text.data(), text.size());
  absl::ConsumePrefix(&rest, kByteOrderMark);
  std::vector<std::string> tokens;
  int line = 0;
  for (const absl::string_view whole : absl::StrSplit(rest, '\n')) {
    ++line;
    const absl::string_view token = absl::StripAsciiWhitespace(whole);
    if (token.empty() || token[0] == '#') continue;
    if (!std::all_of(token.begin(), token.end(), [](unsigned char c) { return absl::ascii_isprint(c); })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", line,
          " contains a character that is not printable ASCII; save the file as plain text, not as UTF-16"));
    }
    tokens.emplace_back(token);
  }
  return tokens;
}

}  // namespace kinora
