// A run's artifact on its way to where the frontend serves it from: a file that is written in a place of its own, then
// durable under its key. For a worker that shares the artifact directory, and for the frontend that receives pieces.
#ifndef KINORA_SERVER_COMMON_ARTIFACT_WRITER_H_
#define KINORA_SERVER_COMMON_ARTIFACT_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/common/directory_artifact_store.h"

namespace kinora {

class ArtifactWriter {
 public:
  // store: not owned. prefix: Run.artifact_key.
  ArtifactWriter(DirectoryArtifactStore& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}
  ~ArtifactWriter();  // removes what was begun and not committed
  ArtifactWriter(const ArtifactWriter&) = delete;
  ArtifactWriter& operator=(const ArtifactWriter&) = delete;

  // Where the file `name` ("video.mp4") is to be written. Once.
  absl::StatusOr<std::string> Begin(const std::string& name);
  // The file is whole: it is durable and readable under "<prefix>/<name>" once this has returned OK.
  absl::StatusOr<StoredFile> Commit();

  // An error of whoever writes the file as a client may see it, which those of the methods above are: without the
  // server's folders, and a full disk by its reason, DISK_FULL. Others are passed on as they are.
  absl::Status ForClients(const absl::Status& status) const;

 private:
  DirectoryArtifactStore& store_;
  const std::string prefix_;
  std::string name_, file_;  // empty: not begun
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ARTIFACT_WRITER_H_
