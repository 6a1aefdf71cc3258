// The directory into which a worker writes its clips: the artifact directory that it shares with its frontend, or a
// private directory of this host, from which they are uploaded (upload_line.h).
#ifndef KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_
#define KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/directory_artifact_store.h"

namespace kinora {

class ArtifactPlace {
 public:
  // A private directory is a folder of mode 0700 in scratch_directory, named after the rank. Open removes the files
  // that an earlier process left there. It succeeds even if the folder cannot be created now; Check then returns the
  // reason. Fails with PermissionDenied if something else has the folder's name, or another user owns it or can enter
  // it.
  static absl::StatusOr<std::unique_ptr<ArtifactPlace>> Open(const v1::WorkerConfig& config,
                                                             const v1::Welcome& welcome);
  ~ArtifactPlace();  // removes a private directory

  // Checks by writing a small file that clips can be written to a private directory now; a shared one is always OK.
  // Creates the folder again if somebody has removed it. Fails, naming scratch_directory, if that is missing or
  // read-only, or if less than kLeastFreeBytes are free.
  absl::Status Check() const;
  static constexpr int64_t kLeastFreeBytes = 64 << 20;

  DirectoryArtifactStore& store() { return *store_; }
  bool is_shared() const { return private_.empty(); }

 private:
  ArtifactPlace() = default;

  std::unique_ptr<DirectoryArtifactStore> store_;
  std::string private_;  // path; empty: shared
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_
