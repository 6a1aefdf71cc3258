#include "server/gateway/field_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/command_line.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestWord = 64;  // that may be a mistyped name
constexpr size_t kMaxOthers = 20;    // unknown names that are reported

std::string Shown(const Json& value) { return Shortened(ToText(value)); }

std::optional<double> ToNumber(const Json& value) {
  double number = 0;
  if (value.is_number()) {
    number = value.get<double>();
  } else if (!value.is_string() || !absl::SimpleAtod(value.get_ref<const std::string&>(), &number)) {
    return std::nullopt;
  }
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<int64_t> ToInteger(const Json& value) {
  int64_t integer = 0;
  if (value.is_string()) {
    if (!absl::SimpleAtoi(value.get_ref<const std::string&>(), &integer)) return std::nullopt;
    return integer;
  }
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  constexpr double kExact = 9007199254740992;                                               // 2^53
  const std::optional<double> number = value.is_number() ? ToNumber(value) : std::nullopt;  // 4.0
  if (!number || std::abs(*number) > kExact || std::trunc(*number) != *number) return std::nullopt;
  return static_cast<int64_t>(*number);
}

// The value, or the one that it holds as JSON text.
Json Parsed(const Json& value) {
  if (!value.is_string()) return value;
  const auto& text = value.get_ref<const std::string&>();
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '{' && text[first] != '[')) return value;
  absl::StatusOr<Json> parsed = ParseFieldJson(text);
  return parsed.ok() ? *std::move(parsed) : value;
}

// The elements of a list. An object with the names 0, 1, … is one: it comes from name[0], name[1].
std::vector<Json> Elements(const Json& list) {
  if (!list.is_object()) return list.is_array() ? std::vector<Json>(list.begin(), list.end()) : std::vector<Json>{list};
  std::vector<Json> elements;
  for (const auto& [key, value] : list.items()) {
    if (key != absl::StrCat(elements.size())) return {list};
    elements.push_back(value);
  }
  return elements.empty() ? std::vector<Json>{list} : elements;
}

std::string ListedWords(absl::Span<const std::string_view> words) {
  return absl::StrJoin(words, ", ", [](std::string* out, std::string_view word) { out->append(word); });
}

std::string Nearest(std::string_view word, absl::Span<const std::string_view> words) {
  if (word.empty() || word.size() > kLongestWord) return "";
  // NearestWord compares the parts of flags, which dashes separate.
  std::vector<std::string> dashed;
  for (const std::string_view known : words) dashed.push_back(absl::StrReplaceAll(std::string(known), {{"_", "-"}}));
  const std::vector<absl::string_view> views(dashed.begin(), dashed.end());
  const std::string found(NearestWord(absl::StrReplaceAll(std::string(word), {{"_", "-"}}), views));
  return found.empty() ? "" : absl::StrCat("; did you mean ", absl::StrReplaceAll(found, {{"-", "_"}}), "?");
}

}  // namespace

const Json* FieldReader::Find(std::string_view name) const {
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool FieldReader::Is(std::string_view name, std::string_view word) const {
  const Json* value = Find(name);
  return value != nullptr && value->is_string() && absl::AsciiStrToLower(value->get_ref<const std::string&>()) == word;
}

std::string FieldReader::Path(std::string_view name) const { return prefix_ + std::string(name); }

void FieldReader::Reject(std::string_view name, std::string description) {
  violations_.push_back({prefix_ + Shortened(name), std::move(description)});
}

std::optional<std::string> FieldReader::Text(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    std::string problem = TextProblem(value->get_ref<const std::string&>());
    if (problem.empty()) return value->get<std::string>();
    Reject(name, std::move(problem));
    return std::nullopt;
  }
  Reject(name, absl::StrCat(Shown(*value), ": must be a text"));
  return std::nullopt;
}

std::optional<int64_t> FieldReader::Integer(std::string_view name, int64_t least, int64_t most) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> integer = ToInteger(*value);
  if (!integer) {
    Reject(name, absl::StrCat(Shown(*value), ": must be an integer"));
  } else if (*integer < least || *integer > most) {
    Reject(name, absl::StrCat(*integer, ": must be within ", least, "..", most));
    return std::nullopt;
  }
  return integer;
}

std::optional<uint64_t> FieldReader::Unsigned(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  uint64_t number = 0;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (value->is_string() && absl::SimpleAtoi(value->get_ref<const std::string&>(), &number)) return number;
  const std::optional<int64_t> integer = value->is_string() ? std::nullopt : ToInteger(*value);
  if (integer && *integer >= 0) return static_cast<uint64_t>(*integer);
  Reject(name, absl::StrCat(Shown(*value), ": must be an integer within 0..18446744073709551615"));
  return std::nullopt;
}

std::optional<double> FieldReader::Number(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = ToNumber(*value);
  if (!number) Reject(name, absl::StrCat(Shown(*value), ": must be a number"));
  return number;
}

std::optional<bool> FieldReader::Boolean(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  const std::string text = value->is_string() ? absl::AsciiStrToLower(value->get_ref<const std::string&>()) : "";
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  Reject(name, absl::StrCat(Shown(*value), ": must be true or false"));
  return std::nullopt;
}

std::optional<size_t> FieldReader::Word(std::string_view name, absl::Span<const std::string_view> words) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::string text = value->is_string() ? value->get<std::string>() : "";
  const std::string lower = absl::StrReplaceAll(absl::AsciiStrToLower(text), {{"-", "_"}});
  const auto found = std::find(words.begin(), words.end(), lower);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  Reject(name, absl::StrCat(Shown(*value), ": must be one of ", ListedWords(words), Nearest(lower, words)));
  return std::nullopt;
}

std::optional<std::vector<double>> FieldReader::Numbers(std::string_view name) {
  const auto list = List(name);
  if (!list) return std::nullopt;
  std::vector<double> numbers;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::optional<double> number = ToNumber((*list)[i]);
    if (!number) Reject(absl::StrCat(std::string(name), "[", i, "]"), Shown((*list)[i]) + ": must be a number");
    numbers.push_back(number.value_or(0));
  }
  return numbers;
}

std::optional<std::vector<int32_t>> FieldReader::Integers(std::string_view name) {
  const auto list = List(name);
  if (!list) return std::nullopt;
  std::vector<int32_t> integers;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::optional<int64_t> integer = ToInteger((*list)[i]);
    const bool fits = integer && *integer >= 0 && *integer <= kMaxInt32;
    if (!fits) Reject(absl::StrCat(std::string(name), "[", i, "]"), Shown((*list)[i]) + ": must be an integer from 0");
    integers.push_back(fits ? static_cast<int32_t>(*integer) : 0);
  }
  return integers;
}

std::optional<Json> FieldReader::Object(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  Json object = Parsed(*value);
  if (object.is_object()) return object;
  Reject(name, absl::StrCat(Shown(*value), ": must be an object"));
  return std::nullopt;
}

std::optional<std::vector<Json>> FieldReader::List(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  return Elements(Parsed(*value));
}

void FieldReader::RejectOthers(absl::Span<const std::string_view> known) {
  size_t others = 0;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (++others > kMaxOthers) return;
    Reject(name, absl::StrCat("is not a field", Nearest(name, known)));
  }
}

}  // namespace kinora
