// Where a worker writes its clips: the artifact directory that it shares with its frontend, or a private one of this
// host, from where they are sent (upload_line.h).
#ifndef KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_
#define KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/directory_artifact_store.h"

namespace kinora {

class ArtifactPlace {
 public:
  // A private one is a folder of mode 0700 in scratch_directory, named after the rank, from which what an earlier
  // process left is removed. PermissionDenied: another user's folder, or one that others may enter, has that name.
  static absl::StatusOr<std::unique_ptr<ArtifactPlace>> Open(const v1::WorkerConfig& config,
                                                             const v1::Welcome& welcome);
  ~ArtifactPlace();  // removes a private one

  DirectoryArtifactStore& store() { return *store_; }
  bool is_shared() const { return private_.empty(); }

 private:
  ArtifactPlace() = default;

  std::unique_ptr<DirectoryArtifactStore> store_;
  std::string private_;  // path; empty: shared
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_
