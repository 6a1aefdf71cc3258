// Writes one artifact of a run to a temporary path and then stores it under its key. Used by a worker that shares the
// artifact directory, and by the frontend for uploaded pieces.
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
  ~ArtifactWriter();  // removes a file that was begun and not committed
  ArtifactWriter(const ArtifactWriter&) = delete;
  ArtifactWriter& operator=(const ArtifactWriter&) = delete;

  // Returns the path to write the file `name` ("video.mp4") to. Call once.
  absl::StatusOr<std::string> Begin(const std::string& name);
  // Call when the file is complete. After OK it is durable and readable under "<prefix>/<name>".
  absl::StatusOr<StoredFile> Commit();

  // Converts an error of writing the file into one that clients may see: it does not name the server's folders, and a
  // full disk has the reason DISK_FULL. Returns other errors unchanged. Begin and Commit already convert their errors.
  absl::Status ForClients(const absl::Status& status) const;

 private:
  DirectoryArtifactStore& store_;
  const std::string prefix_;
  std::string name_, file_;  // empty: not begun
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ARTIFACT_WRITER_H_
