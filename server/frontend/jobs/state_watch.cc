#include "server/frontend/jobs/state_watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/common/file_error.h"

namespace kinora {

absl::Status StateWatch::Add(const std::string& path) {
  FileDescriptor held(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat info;
  if (!held.ok() || fstat(held.get(), &info) != 0) return FileError(path, "look at");
  watched_.push_back({path, std::move(held), info.st_dev, info.st_ino});
  return absl::OkStatus();
}

absl::Status StateWatch::Check() const {
  for (const Watched& watched : watched_) {
    struct stat info;
    if (stat(watched.path.c_str(), &info) == 0) {
      if (info.st_dev == watched.device && info.st_ino == watched.inode) continue;
      return absl::FailedPreconditionError(absl::StrCat(watched.path, " was replaced"));
    }
    if (errno == ENOENT || errno == ENOTDIR) {
      return absl::FailedPreconditionError(absl::StrCat(watched.path, " was moved or removed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kinora
