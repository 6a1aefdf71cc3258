#include "server/frontend/jobs/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"

namespace kinora {
namespace {

constexpr mode_t kOthers = 0077;  // permissions of group and others

std::string Absolute(const std::string& path) {
  std::error_code error;  // if the current directory is gone, later calls report the missing path
  std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
  if (error) absolute = path;
  if (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  return absolute;
}

absl::Status CheckOwner(const std::string& path, const struct stat& info) {
  if (info.st_uid == geteuid()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("state_directory: ", path, " belongs to user ", info.st_uid,
                                                    ", but this process runs as user ", geteuid(),
                                                    "; change its owner with chown"));
}

absl::Status CheckPrivate(const std::string& path, const struct stat& info) {
  const std::string otherwise =
      absl::StrCat(", or if that is impossible (a mount point), use a folder inside it, such as ", path,
                   "/kinora, which the frontend creates with the right mode");
  if (const absl::Status status = CheckOwner(path, info); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(std::string(status.message()), otherwise));
  }
  if ((info.st_mode & kOthers) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "state_directory: %s has mode %04o, but other users must have no access; set it with chmod 0700%s", path,
      info.st_mode & 07777, otherwise));
}

// For a file or folder created while the directory was open to others, or restored from a backup.
absl::Status MakePrivate(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return errno == ENOENT ? absl::OkStatus() : FileError(path, "look at");
  KINORA_RETURN_IF_ERROR(CheckOwner(path, info));
  if ((info.st_mode & kOthers) == 0) return absl::OkStatus();
  if (chmod(path.c_str(), info.st_mode & 07777 & ~kOthers) != 0) return FileError(path, "make private");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateDirectory> StateDirectory::Lock(const std::string& path) {
  const std::string absolute = Absolute(path);
  if (mkdir(absolute.c_str(), 0700) != 0 && errno != EEXIST) return FileError(absolute, "create state_directory");
  FileDescriptor lock(open(absolute.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.ok()) {
    const absl::Status opened = FileError(absolute, "open state_directory"), judged = Check(absolute);
    return judged.ok() ? opened : judged;  // explains a permission error
  }
  struct stat info;
  if (fstat(lock.get(), &info) != 0) return FileError(absolute, "look at state_directory");
  KINORA_RETURN_IF_ERROR(CheckPrivate(absolute, info));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(absolute, "lock state_directory");
    return absl::FailedPreconditionError(
        absl::StrCat("state_directory: ", absolute,
                     " is in use by another frontend; stop that frontend or choose another directory"));
  }
  StateDirectory state(absolute, std::move(lock));
  for (const char* name : {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db.commits", "artifacts"}) {
    KINORA_RETURN_IF_ERROR(MakePrivate(state.File(name)));
  }
  return state;
}

absl::Status StateDirectory::Check(const std::string& path) {
  const std::string absolute = Absolute(path);
  struct stat info;
  if (stat(absolute.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return CheckPrivate(absolute, info);
    return absl::FailedPreconditionError(absl::StrCat("state_directory: ", absolute, " is not a directory"));
  }
  const std::string parent = std::filesystem::path(absolute).parent_path().string();
  if (errno != ENOENT) return FileError(absolute, "look at state_directory");
  if (access(parent.c_str(), W_OK | X_OK) != 0) return FileError(absolute, "create state_directory");
  return absl::OkStatus();
}

}  // namespace kinora
