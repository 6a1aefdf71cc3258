#include "engine/config/family_defaults.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/base/strings.h"

namespace kinora {

FamilyDefaults DefaultsOf(std::string_view family) {
  if (family == kLtx20) return {.steps = 40, .stg_block = 29};
  return {.ancestral_distilled = family == kLtx25};
}

namespace {

// Returns the leading parts that are numbers.
std::vector<int> NumbersOf(std::string_view version) {
  std::vector<int> numbers;
  for (const auto& part : absl::StrSplit(AbslView(version), absl::ByAnyChar(".-"))) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 0) break;
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

int32_t ImageCrfOf(std::string_view model_version) {
  return NumbersOf(model_version) >= std::vector<int>{2, 4} ? 18 : 33;
}

absl::StatusOr<std::string> FamilyOfVersion(std::string_view model_version) {
  if (model_version.empty()) return std::string();
  const std::vector<int> parts = NumbersOf(model_version);
  if (parts.size() < 2) return absl::InvalidArgumentError(Cat("model_version ", model_version, ": not a version"));
  if (parts[0] == 2 && parts[1] < 3) return std::string(kLtx20);
  if (parts[0] == 2 && parts[1] < 5) return std::string(kLtx23);
  if (parts[0] == 2 && parts[1] == 5) return std::string(kLtx25);
  return absl::UnimplementedError(
      Cat("model_version ", model_version, ": not available yet; LTX-2.0, LTX-2.3 and LTX-2.5 are"));
}

}  // namespace kinora
