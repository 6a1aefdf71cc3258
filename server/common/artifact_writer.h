// Writes one artifact of a run to a temporary path of a FileArtifactStore and then stores it under its key. For muxers,
// which need a path; StagedArtifact (artifact_store.h) is for any store.
#ifndef KINORA_SERVER_COMMON_ARTIFACT_WRITER_H_
#define KINORA_SERVER_COMMON_ARTIFACT_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/common/file_artifact_store.h"

namespace kinora {

class ArtifactWriter {
 public:
  // store: not owned. prefix: Run.artifact_key.
  ArtifactWriter(FileArtifactStore& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}
  ~ArtifactWriter();  // removes a file that was begun and not committed
  ArtifactWriter(const ArtifactWriter&) = delete;
  ArtifactWriter& operator=(const ArtifactWriter&) = delete;

  // Returns the path to write the file `name` ("video.mp4") to. Call once.
  absl::StatusOr<std::string> Begin(const std::string& name);
  // Call when the file is complete. After OK it is durable and readable under "<prefix>/<name>".
  absl::StatusOr<StoredFile> Commit();

  // FileArtifactStore::ForClients for an error of writing the file. Begin and Commit already convert their errors.
  absl::Status ForClients(const absl::Status& status) const;

 private:
  FileArtifactStore& store_;
  const std::string prefix_;
  std::string name_, file_;  // empty: not begun
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ARTIFACT_WRITER_H_
