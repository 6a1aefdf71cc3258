#include "server/frontend/jobs/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace kinora {

absl::StatusOr<StateDirectory> StateDirectory::Lock(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  if (mkdir(absolute.c_str(), 0700) != 0 && errno != EEXIST) return FileError(absolute, "create state_directory");
  FileDescriptor lock(open(absolute.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.ok()) return FileError(absolute, "open state_directory");
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(absolute, "lock state_directory");
    return absl::FailedPreconditionError(
        absl::StrCat("state_directory: ", absolute, " is in use by another frontend; stop it or choose another"));
  }
  return StateDirectory(absolute, std::move(lock));
}

}  // namespace kinora
