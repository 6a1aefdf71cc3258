#include "engine/ops/cuda/kernel_images.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

enum class Reach : uint8_t { kExact, kSameMajor, kAllLater };

struct Architecture {
  int major = 0, minor = 0;
  Reach reach = Reach::kSameMajor;
};

Architecture Parse(absl::string_view name) {
  const bool ptx = !absl::ConsumeSuffix(&name, "-real");
  absl::ConsumeSuffix(&name, "-virtual");
  Architecture out;
  if (absl::ConsumeSuffix(&name, "a")) {
    out.reach = Reach::kExact;
  } else if (!absl::ConsumeSuffix(&name, "f") && ptx) {
    out.reach = Reach::kAllLater;
  }
  int number = 0;
  KINORA_CHECK(absl::SimpleAtoi(name, &number)) << "not an architecture: " << std::string(name);
  out.major = number / 10;
  out.minor = number % 10;
  return out;
}

std::vector<Architecture> ParseAll(std::string_view architectures) {
  std::vector<Architecture> out;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(std::string(architectures), ','))) {
    out.push_back(Parse(name));
  }
  return out;
}

bool Reaches(const Architecture& from, int major, int minor) {
  if (from.reach == Reach::kAllLater && major > from.major) return true;
  if (major != from.major) return false;
  return from.reach == Reach::kExact ? minor == from.minor : minor >= from.minor;
}

std::string ForPeople(const Architecture& each) {
  const std::string first = absl::StrCat(each.major, ".", each.minor);
  switch (each.reach) {
    case Reach::kExact:
      return first;
    case Reach::kSameMajor:
      return each.minor == 9 ? first : absl::StrCat(first, " to ", each.major, ".9");
    case Reach::kAllLater:
      break;
  }
  return absl::StrCat(first, " and later");
}

}  // namespace

bool HasKernelsFor(int major, int minor, std::string_view architectures) {
  const std::vector<Architecture> all = ParseAll(architectures);
  return std::any_of(all.begin(), all.end(), [&](const Architecture& each) { return Reaches(each, major, minor); });
}

std::string CapabilitiesWithKernels(std::string_view architectures) {
  return absl::StrJoin(ParseAll(architectures), ", ",
                       [](std::string* out, const Architecture& each) { *out += ForPeople(each); });
}

}  // namespace kinora
