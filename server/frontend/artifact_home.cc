#include "server/frontend/artifact_home.h"

#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/frontend/inputs/part_folder.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<ArtifactHome>> ArtifactHome::Open(const StateDirectory& state) {
  KINORA_ASSIGN_OR_RETURN(auto artifacts, DirectoryArtifactStore::At(state.File("artifacts")));
  KINORA_RETURN_IF_ERROR(artifacts->RemoveUnfinished());
  KINORA_ASSIGN_OR_RETURN(auto parts, PartFolder::Open(state.File("uploads"), *artifacts));
  return std::unique_ptr<ArtifactHome>(new ArtifactHome(std::move(artifacts), std::move(parts)));
}

std::function<void(pid_t pid)> ArtifactHome::ProcessEndListener() {
  return [this](pid_t pid) {
    const absl::Status removed = artifacts_->RemoveUnfinishedOf(pid);
    if (!removed.ok()) Log(Severity::kWarning, "unfinished_files_left", {{"why", std::string(removed.message())}});
  };
}

}  // namespace kinora
