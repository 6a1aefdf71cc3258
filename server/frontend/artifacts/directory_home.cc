#include "server/frontend/artifacts/directory_home.h"

#include <fcntl.h>
#include <sys/file.h>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"
#include "server/frontend/inputs/directory_parts.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<ArtifactHome>> DirectoryHome::Open(const std::string& folder,
                                                                  const StateDirectory& state) {
  KINORA_ASSIGN_OR_RETURN(auto artifacts, DirectoryArtifactStore::At(folder));
  FileDescriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.ok()) return FileError(folder, "open");
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(folder, "lock");
    return absl::FailedPreconditionError(
        absl::StrCat("artifacts: ", folder, " is in use by another frontend; stop it or choose another folder"));
  }
  KINORA_RETURN_IF_ERROR(artifacts->RemoveUnfinished());
  KINORA_ASSIGN_OR_RETURN(auto parts, DirectoryParts::Open(state.File("uploads"), *artifacts));
  return std::unique_ptr<ArtifactHome>(new DirectoryHome(std::move(lock), std::move(artifacts), std::move(parts)));
}

std::function<void(pid_t pid)> DirectoryHome::ProcessEndListener() {
  return [this](pid_t pid) {
    const absl::Status removed = artifacts_->RemoveUnfinishedOf(pid);
    if (!removed.ok()) Log(Severity::kWarning, "unfinished_files_left", {{"why", std::string(removed.message())}});
  };
}

}  // namespace kinora
