// Where a worker writes its clips: into the store that it shares with its frontend, or into one of its own, from which
// they are uploaded (upload_line.h).
#ifndef KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_
#define KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kinora/v1/config.pb.h"
#include "kinora/v1/worker.pb.h"
#include "server/common/file_artifact_store.h"

namespace kinora {

class ArtifactPlace {
 public:
  // welcome.artifact_directory is the shared store; empty: a ScratchStore, whose errors Open has.
  static absl::StatusOr<std::unique_ptr<ArtifactPlace>> Open(const v1::WorkerConfig& config,
                                                             const v1::Welcome& welcome);

  // Checks that clips can be written to a store of its own now, with room for kLeastFreeBytes; a shared one is always
  // OK: the frontend checks it.
  absl::Status Check() const;
  static constexpr int64_t kLeastFreeBytes = 64 << 20;

  FileArtifactStore& store() { return *store_; }
  bool is_shared() const { return shared_; }

 private:
  ArtifactPlace() = default;

  std::unique_ptr<FileArtifactStore> store_;
  bool shared_ = false;
};

}  // namespace kinora

#endif  // KINORA_SERVER_WORKER_ARTIFACT_PLACE_H_
