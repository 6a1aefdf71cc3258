#include "server/gateway/byte_range.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kinora {
namespace {

// Digits only. A number beyond int64 is as far as a file can reach.
std::optional<int64_t> Number(absl::string_view digits) {
  if (digits.empty() || digits.find_first_not_of("0123456789") != absl::string_view::npos) return std::nullopt;
  int64_t number = 0;
  return absl::SimpleAtoi(digits, &number) ? number : INT64_MAX;
}

}  // namespace

ByteRange ParseByteRange(std::string_view range, int64_t size) {
  absl::string_view text(range.data(), range.size());
  if (!absl::StartsWithIgnoreCase(text, "bytes=")) return {};
  text = absl::StripAsciiWhitespace(text.substr(6));
  const size_t dash = text.find('-');
  if (dash == absl::string_view::npos || absl::StrContains(text, ",")) return {};
  const absl::string_view from = absl::StripAsciiWhitespace(text.substr(0, dash));
  const absl::string_view to = absl::StripAsciiWhitespace(text.substr(dash + 1));
  const std::optional<int64_t> first = Number(from), last = Number(to);
  if (from.empty()) {  // the last bytes
    if (!last) return {};
    if (*last == 0) return {.kind = ByteRange::Kind::kUnsatisfiable};
    return {.kind = ByteRange::Kind::kPart, .first = std::max<int64_t>(0, size - *last), .last = size - 1};
  }
  if (!first || (!to.empty() && (!last || *last < *first))) return {};
  if (*first >= size) return {.kind = ByteRange::Kind::kUnsatisfiable};
  return {.kind = ByteRange::Kind::kPart, .first = *first, .last = std::min(last.value_or(size - 1), size - 1)};
}

bool NamesETag(std::string_view field, std::string_view etag) {
  for (absl::string_view one : absl::StrSplit(absl::string_view(field.data(), field.size()), ',')) {
    one = absl::StripAsciiWhitespace(one);
    absl::ConsumePrefix(&one, "W/");
    if (one == "*" || one == absl::string_view(etag.data(), etag.size())) return true;
  }
  return false;
}

}  // namespace kinora
