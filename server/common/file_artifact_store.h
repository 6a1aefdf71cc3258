// An artifact store for a worker, whose programs read and write files: a muxer writes a clip to a path, and the decoder
// of inputs reads a descriptor. The implementation alone knows in which folders they lie.
#ifndef KINORA_SERVER_COMMON_FILE_ARTIFACT_STORE_H_
#define KINORA_SERVER_COMMON_FILE_ARTIFACT_STORE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"
#include "server/common/artifact_store.h"
#include "server/common/scratch_file.h"

namespace kinora {

class FileArtifactStore : public ArtifactStore {
 public:
  // Returns a path for writing a file that will be Put under `key`. It ends as the key does.
  virtual absl::StatusOr<std::string> TemporaryPath(std::string_view key) = 0;
  // Stores `file`, as StagedArtifact::Commit. `file` may be gone afterwards, even after an error.
  virtual absl::StatusOr<StoredFile> Put(std::string_view key, const std::string& file) = 0;
  // Converts an error of writing `file`, which is to get `key`, into one that clients may see: it does not name folders
  // of the server, and a full disk has the reason DISK_FULL. Returns other errors unchanged.
  virtual absl::Status ForClients(const absl::Status& status, const std::string& file, std::string_view key) const = 0;
  virtual absl::StatusOr<FileDescriptor> OpenFile(std::string_view key) const = 0;  // for reading; errors as Open
  virtual absl::StatusOr<ScratchFile> MakeScratchFile() = 0;  // on the disk of the files from TemporaryPath
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_FILE_ARTIFACT_STORE_H_
