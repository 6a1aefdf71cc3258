#include "server/frontend/postgres/sql_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace kinora {
namespace {

constexpr char kModule[] = "kinora-postgresql.so";

std::string FindModule() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::filesystem::path& path : {program / kModule, program / "../lib/kinora/modules" / kModule}) {
    if (std::filesystem::exists(path, error)) return path.lexically_normal().string();
  }
  return "";
}

}  // namespace

absl::StatusOr<const SqlDriver*> OpenPostgresDriver(std::string path) {
  if (path.empty()) path = FindModule();
  if (path.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        kModule,
        " is neither beside this program nor in ../lib/kinora/modules; install the package kinora-postgresql"));
  }
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(dlerror(), "; install libpq5 and the package kinora-postgresql of this version"));
  }
  void* const function = dlsym(module, kSqlDriverFunction);
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(kModule, " belongs to another version of this program; install the one of this version"));
  }
  return reinterpret_cast<SqlDriverFunction*>(function)();
}

}  // namespace kinora
