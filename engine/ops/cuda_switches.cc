#include "engine/ops/cuda_switches.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace kinora {
namespace {

struct Part {
  const char* name;
  bool CudaSwitches::*on;
};

constexpr Part kParts[] = {
    {"graphs", &CudaSwitches::graphs}, {"early-launch", &CudaSwitches::early_launch},
    {"branch", &CudaSwitches::branch}, {"cudnn", &CudaSwitches::cudnn},
    {"tuning", &CudaSwitches::tuning},
};

std::string_view Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<CudaSwitches> ParseCudaSwitches(std::string_view off, std::string_view synchronize) {
  CudaSwitches switches;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(std::string(off), ',', absl::SkipEmpty()))) {
    bool known = false;
    for (const Part& part : kParts) {
      if (name != part.name) continue;
      known = true;
      switches.*part.on = false;
    }
    if (known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(kCudaOffVariable, ": \"", name, "\" is none of ", absl::StrJoin(CudaSwitchNames(), ", ")));
  }
  if (synchronize != "" && synchronize != "0" && synchronize != "1") {
    return absl::InvalidArgumentError(
        absl::StrCat(kCudaSynchronizeVariable, ": must be 0 or 1, not \"", std::string(synchronize), "\""));
  }
  switches.synchronize = synchronize == "1";
  if (switches.synchronize) switches.graphs = false;
  return switches;
}

absl::StatusOr<CudaSwitches> CudaSwitchesFromEnvironment() {
  return ParseCudaSwitches(Environment(kCudaOffVariable), Environment(kCudaSynchronizeVariable));
}

std::vector<std::string> CudaSwitchNames() {
  std::vector<std::string> names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  return names;
}

}  // namespace kinora
