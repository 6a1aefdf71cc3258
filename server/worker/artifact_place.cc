#include "server/worker/artifact_place.h"

#include "engine/base/status_macros.h"
#include "server/common/directory_artifact_store.h"
#include "server/worker/scratch_store.h"

namespace kinora {

absl::StatusOr<std::unique_ptr<ArtifactPlace>> ArtifactPlace::Open(const v1::WorkerConfig& config,
                                                                   const v1::Welcome& welcome) {
  auto place = std::unique_ptr<ArtifactPlace>(new ArtifactPlace);
  place->shared_ = !welcome.artifact_directory().empty();
  if (place->shared_) {
    KINORA_ASSIGN_OR_RETURN(place->store_, DirectoryArtifactStore::At(welcome.artifact_directory()));
  } else {
    KINORA_ASSIGN_OR_RETURN(place->store_, ScratchStore::Open(config));
  }
  return place;
}

absl::Status ArtifactPlace::Check() const { return shared_ ? absl::OkStatus() : store_->CheckRoom(kLeastFreeBytes); }

}  // namespace kinora
