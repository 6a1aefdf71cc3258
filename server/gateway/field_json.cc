#include "server/gateway/field_json.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/gateway/request_fields.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

// Watches the parser, so that what is beyond a limit is never built.
class Limits {
 public:
  bool Allows(int depth, Json::parse_event_t event, const Json& parsed) {
    if (!problem_.empty()) return false;
    const bool begins = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (begins && depth >= kMaxFieldsDepth) problem_ = absl::StrCat("nested deeper than ", kMaxFieldsDepth);
    if ((begins || event == Json::parse_event_t::value) && ++values_ > kMaxFieldValues) {
      problem_ = absl::StrCat("JSON with more than ", kMaxFieldValues, " values");
    }
    if (event == Json::parse_event_t::object_start) names_.emplace_back();
    if (event == Json::parse_event_t::object_end) names_.pop_back();
    if (event == Json::parse_event_t::key && !names_.back().insert(parsed.get_ref<const std::string&>()).second) {
      problem_ =
          absl::StrCat("JSON with the name ", Shortened(parsed.get_ref<const std::string&>()), " twice in an object");
    }
    return problem_.empty();
  }
  const std::string& problem() const { return problem_; }

 private:
  std::vector<std::set<std::string>> names_;  // of the objects that the parser is inside
  size_t values_ = 0;
  std::string problem_;
};

}  // namespace

absl::StatusOr<Json> ParseFieldJson(std::string_view text) {
  Limits limits;
  const Json::parser_callback_t watch = [&limits](int depth, Json::parse_event_t event, Json& parsed) {
    return limits.Allows(depth, event, parsed);
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (!limits.problem().empty()) return absl::InvalidArgumentError(limits.problem());
  if (json.is_discarded()) return absl::InvalidArgumentError("not valid JSON");
  return json;
}

std::string Shortened(std::string_view text) {
  constexpr size_t kShown = 64;
  if (text.size() <= kShown) return std::string(text);
  size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character
  return std::string(text.substr(0, end)) + "…";
}

std::string ToText(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace kinora
