#include "engine/config/config_fields.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"

namespace kinora {
namespace {

constexpr size_t kListedProblems = 20;
constexpr size_t kMaxListLength = 64;

bool WholeNumber(const nlohmann::json& value, int64_t min, int64_t max, int64_t* out) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(max) || static_cast<int64_t>(number) < min) return false;
    *out = static_cast<int64_t>(number);
    return true;
  }
  if (!value.is_number_float()) return false;  // including negative integers, which are never acceptable
  const double number = value.get<double>();   // 1000.0 is a whole number too
  if (!(number >= static_cast<double>(min) && number <= static_cast<double>(max)) || number != std::floor(number))
    return false;
  *out = static_cast<int64_t>(number);
  return true;
}

bool NumberIn(const nlohmann::json& value, Range range, double* out) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  if (!(number >= range.min && number <= range.max)) return false;
  *out = number;
  return true;
}

}  // namespace

std::string ShortText(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > 80 ? Cat(text.substr(0, 77), "...") : text;
}

absl::Status ConfigProblems::status() const {
  if (problems_.empty()) return absl::OkStatus();
  const size_t listed = std::min(problems_.size(), kListedProblems);
  std::string message = absl::StrJoin(problems_.begin(), problems_.begin() + listed, "; ");
  if (problems_.size() > listed) message += Cat("; and ", problems_.size() - listed, " more");
  return absl::InvalidArgumentError(message);
}

ConfigFields::ConfigFields(const nlohmann::json* object, std::string path, ConfigProblems* problems)
    : object_(object), path_(std::move(path)), problems_(problems) {
  if (object_ != nullptr && !object_->is_object()) {
    if (!object_->is_null()) problems_->Add(Cat(path_, ": not an object"));
    object_ = nullptr;
  }
}

const nlohmann::json* ConfigFields::Find(std::string_view key) const {
  if (object_ == nullptr) return nullptr;
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

ConfigFields ConfigFields::Object(std::string_view key) const { return ConfigFields(Find(key), Path(key), problems_); }

void ConfigFields::Problem(std::string_view key, std::string_view what) const {
  problems_->Add(Cat(Path(key), ": ", what));
}

void ConfigFields::Read(std::string_view key, bool* out) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Problem(key, Cat(ShortText(*value), " is not true or false"));
  *out = value->get<bool>();
}

void ConfigFields::Read(std::string_view key, double* out, Range range) const {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && !NumberIn(*value, range, out))
    Problem(key, Cat(ShortText(*value), " must be a number in ", range.min, "..", range.max));
}

void ConfigFields::Read(std::string_view key, std::string* out) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return Problem(key, Cat(ShortText(*value), " is not a string"));
  *out = value->get<std::string>();
}

void ConfigFields::Read(std::string_view key, int64_t* out, int64_t max) const {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && !WholeNumber(*value, 1, max, out))
    Problem(key, Cat(ShortText(*value), " must be a whole number in 1..", max));
}

void ConfigFields::Read(std::string_view key, std::vector<int64_t>* out, int64_t max) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return;
  std::vector<int64_t> numbers;
  bool good = value->is_array() && !value->empty() && value->size() <= kMaxListLength;
  for (size_t i = 0; good && i < value->size(); ++i) {
    numbers.push_back(0);
    good = WholeNumber((*value)[i], 1, max, &numbers.back());
  }
  if (!good) return Problem(key, Cat(ShortText(*value), " must be a list of whole numbers in 1..", max));
  *out = std::move(numbers);
}

void ConfigFields::Read(std::string_view key, std::vector<double>* out, Range range) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return;
  std::vector<double> numbers;
  bool good = value->is_array() && !value->empty() && value->size() <= kMaxListLength;
  for (size_t i = 0; good && i < value->size(); ++i) {
    numbers.push_back(0);
    good = NumberIn((*value)[i], range, &numbers.back());
  }
  if (!good) return Problem(key, Cat(ShortText(*value), " must be a list of numbers in ", range.min, "..", range.max));
  *out = std::move(numbers);
}

void ConfigFields::Read(std::string_view key, std::vector<bool>* out, size_t count) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return;
  if (value->is_boolean()) {
    out->assign(count, value->get<bool>());
    return;
  }
  const bool good =
      value->is_array() && value->size() == count &&
      std::all_of(value->begin(), value->end(), [](const nlohmann::json& flag) { return flag.is_boolean(); });
  if (!good) return Problem(key, Cat(ShortText(*value), " must be a list of ", count, " times true or false"));
  out->clear();
  for (const nlohmann::json& flag : *value) out->push_back(flag.get<bool>());
}

void ConfigFields::Require(std::string_view key, const nlohmann::json& only) const {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && *value != only)
    Problem(key, Cat(ShortText(*value), " is not supported, only ", ShortText(only), " is"));
}

size_t ConfigFields::Choose(std::string_view key, std::initializer_list<std::string_view> values,
                            size_t fallback) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  size_t index = 0;
  for (std::string_view candidate : values) {
    if (value->is_string() && value->get_ref<const std::string&>() == candidate) return index;
    ++index;
  }
  Problem(key, Cat(ShortText(*value), " is not supported; supported: ",
                   absl::StrJoin(values, ", ", [](std::string* out, std::string_view name) { out->append(name); })));
  return fallback;
}

void ConfigFields::RequireSame(std::string_view key, int64_t value, std::string_view as) const {
  const nlohmann::json* found = Find(key);
  int64_t number = 0;
  if (found != nullptr && (!WholeNumber(*found, 0, int64_t{1} << 40, &number) || number != value)) {
    Problem(key, Cat(ShortText(*found), ", but ", as, " is ", value));
  }
}

}  // namespace kinora
