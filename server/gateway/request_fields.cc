#include "server/gateway/request_fields.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/request/field_violation.h"
#include "server/common/status_details.h"
#include "server/gateway/error_body.h"
#include "server/gateway/field_json.h"
#include "server/gateway/multipart_header.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

absl::Status TooLarge(std::string_view message) {
  return WithErrorInfo(absl::InvalidArgumentError(std::string(message)), kBodyTooLarge);
}

// "lora[name]" -> lora, name; "sigmas[]" -> sigmas, "". Empty: the brackets are malformed.
std::vector<std::string> SplitBrackets(std::string_view name) {
  std::vector<std::string> keys = {std::string(name.substr(0, name.find('[')))};
  std::string_view rest = name.substr(keys[0].size());
  while (!rest.empty()) {
    const size_t end = rest.find(']');
    if (rest[0] != '[' || end == std::string_view::npos) return {};
    keys.emplace_back(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
  }
  if (keys[0].empty() || keys.size() > static_cast<size_t>(kMaxFieldsDepth)) return {};
  return keys;
}

// Puts `value` at its place below `object`. False: another value is there.
bool Put(Json& object, const std::vector<std::string>& keys, std::string_view value) {
  Json* at = &object;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].empty()) {  // only the last can be empty
      if (at->is_null()) *at = Json::array();
      if (!at->is_array()) return false;
      at->push_back(std::string(value));
      return true;
    }
    if (at->is_null()) *at = Json::object();
    if (!at->is_object()) return false;
    at = &(*at)[keys[i]];
  }
  if (!at->is_null()) return false;
  *at = std::string(value);
  return true;
}

std::string Text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Whether two values mean the same: "4" of a text part equals 4.
bool Same(const Json& a, const Json& b) { return a == b || Text(a) == Text(b); }

}  // namespace

RequestFields::RequestFields() : values_(std::make_unique<Json>(Json::object())) {}
RequestFields::~RequestFields() = default;
RequestFields::RequestFields(RequestFields&& other) noexcept = default;
RequestFields& RequestFields::operator=(RequestFields&& other) noexcept = default;

absl::StatusOr<RequestFields> RequestFields::FromJson(std::string_view body) {
  if (body.size() > kMaxFieldsBytes) {
    return TooLarge(absl::StrCat("the body has more than ", kMaxFieldsBytes,
                                 " bytes; send files as parts of a multipart/form-data body"));
  }
  absl::StatusOr<Json> json = ParseFieldJson(body);
  if (!json.ok()) return MalformedBody(absl::StrCat("the body is ", std::string(json.status().message())));
  if (!json->is_object()) return MalformedBody("the body is not a JSON object");
  RequestFields fields;
  *fields.values_ = *std::move(json);
  KINORA_RETURN_IF_ERROR(fields.Merge());
  return fields;
}

absl::Status RequestFields::AddText(std::string_view name, std::string_view value) {
  bytes_ += name.size() + value.size();
  if (bytes_ > kMaxFieldsBytes) {
    return TooLarge(
        absl::StrCat("the text parts have more than ", kMaxFieldsBytes, " bytes; send files as file parts"));
  }
  if (++count_ > kMaxFieldValues) return TooLarge(absl::StrCat("more than ", kMaxFieldValues, " text parts"));
  for (const std::string_view text : {name, value}) {
    const std::string problem = TextProblem(text);
    if (!problem.empty()) return InvalidField(text == name ? "(a part's name)" : Shortened(name), problem);
  }
  const std::vector<std::string> keys = SplitBrackets(name);
  if (keys.empty()) return InvalidField(Shortened(name), "malformed brackets; write name, name[key] or name[]");
  for (size_t i = 1; i + 1 < keys.size(); ++i) {
    if (keys[i].empty()) {
      return InvalidField(Shortened(keys[0]),
                          "send a list of objects as JSON text, or with indices, such as name[0][key]");
    }
  }
  if (files_.contains(keys[0]) || !Put(*values_, keys, value)) {
    return InvalidField(Shortened(name), "is given twice, or in two forms");
  }
  return absl::OkStatus();
}

absl::Status RequestFields::AddFile(std::string_view name) {
  const std::string key(name);
  const std::string problem = TextProblem(name);
  if (!problem.empty()) return InvalidField("(a part's name)", problem);
  if (values_->contains(key) || !files_.insert(key).second) {
    return InvalidField(Shortened(key), "is given twice; give each file part a name of its own");
  }
  return absl::OkStatus();
}

absl::Status RequestFields::Merge() {
  for (const char* name : {"extra_body", "extra_params"}) {
    const auto found = values_->find(name);
    if (found == values_->end()) continue;
    Json extra = std::move(*found);
    values_->erase(name);
    if (extra.is_string()) {
      absl::StatusOr<Json> parsed = ParseFieldJson(extra.get_ref<const std::string&>());
      if (!parsed.ok()) return InvalidField(name, std::string(parsed.status().message()));
      extra = *std::move(parsed);
    }
    if (extra.is_null()) continue;
    if (!extra.is_object()) return InvalidField(name, "must be a JSON object");
    for (const auto& [key, value] : extra.items()) {
      if (files_.contains(key)) return InvalidField(Shortened(key), absl::StrCat("is given as a file and in ", name));
      Json& there = (*values_)[key];
      if (!there.is_null() && !value.is_null() && !Same(there, value)) {
        return InvalidField(Shortened(key), absl::StrCat("is given twice, with another value in ", name));
      }
      if (there.is_null()) there = value;
    }
  }
  return absl::OkStatus();
}

std::string RequestFields::model() const {
  const auto found = values_->find("model");
  return found != values_->end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace kinora
