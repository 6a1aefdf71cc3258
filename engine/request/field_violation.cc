#include "engine/request/field_violation.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/utf8.h"

namespace kinora {

std::string JoinViolations(const FieldViolations& violations) {
  return absl::StrJoin(violations, "; ", [](std::string* out, const FieldViolation& violation) {
    absl::StrAppend(out, violation.field, ": ", violation.description);
  });
}

std::string TextProblem(std::string_view text) {
  if (const int64_t at = FindInvalidUtf8(text); at >= 0) return absl::StrCat("invalid UTF-8 at byte ", at);
  return text.find('\0') == std::string_view::npos ? "" : "contains a zero byte";
}

}  // namespace kinora
