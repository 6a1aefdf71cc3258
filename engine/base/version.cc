#include "engine/base/version.h"

#include "absl/strings/str_cat.h"
#include "engine/base/cpu_path.h"

namespace kinora {

std::string VersionText(const char* program) {
  return absl::StrCat(program, " ", kBuildVersion, "\ncommit    ", kBuildCommit, "\nbackends  ", kBuildBackends,
                      "\ncpu path  ", CpuPathName(ThisCpuPath()), "\n");
}

}  // namespace kinora
