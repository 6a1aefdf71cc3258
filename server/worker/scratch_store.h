// A private directory of this host for the clips of a worker that shares no store with its frontend, until they are
// uploaded (upload_line.h): a folder of mode 0700 in scratch_directory, named after the rank.
#ifndef KINORA_SERVER_WORKER_SCRATCH_STORE_H_
#define KINORA_SERVER_WORKER_SCRATCH_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "server/common/directory_artifact_store.h"

namespace kinora {

class ScratchStore : public DirectoryArtifactStore {
 public:
  // Removes the files that an earlier process left there. Succeeds even if the folder cannot be created now; CheckRoom
  // then returns the reason. Fails with PermissionDenied if something else has the folder's name, or another user owns
  // it or can enter it.
  static absl::StatusOr<std::unique_ptr<ScratchStore>> Open(const v1::WorkerConfig& config);
  ~ScratchStore() override;  // removes the folder

  // Also checks by writing a small file that clips can be written now, and creates the folder again if somebody has
  // removed it. Errors name scratch_directory.
  absl::Status CheckRoom(int64_t bytes) override;

 private:
  explicit ScratchStore(const std::string& path) : DirectoryArtifactStore(path), path_(path) {}
  absl::Status TryRoom(int64_t bytes);

  const std::string path_;  // as configured, for errors
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_SCRATCH_STORE_H_
