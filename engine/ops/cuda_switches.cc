#include "engine/ops/cuda_switches.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

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

absl::StatusOr<bool> SynchronizeOfEnvironment() {
  const std::string_view value = Environment(kCudaSynchronizeVariable);
  if (value == "" || value == "0") return false;
  if (value == "1") return true;
  return absl::InvalidArgumentError(
      absl::StrCat(kCudaSynchronizeVariable, ": must be 0 or 1, not \"", std::string(value), "\""));
}

}  // namespace

absl::StatusOr<CudaSwitches> ParseCudaOff(std::string_view source, std::string_view off) {
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
        absl::StrCat(std::string(source), ": \"", name, "\" is none of ", absl::StrJoin(CudaSwitchNames(), ", ")));
  }
  return switches;
}

absl::StatusOr<CudaSwitches> ReadCudaSwitches(const CudaFlags& flags) {
  KINORA_ASSIGN_OR_RETURN(CudaSwitches switches,
                          flags.off ? *flags.off : ParseCudaOff(kCudaOffVariable, Environment(kCudaOffVariable)));
  KINORA_ASSIGN_OR_RETURN(switches.synchronize, flags.synchronize ? *flags.synchronize : SynchronizeOfEnvironment());
  if (switches.synchronize) switches.graphs = false;
  return switches;
}

std::vector<std::string> CudaSwitchNames() {
  std::vector<std::string> names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  return names;
}

}  // namespace kinora
