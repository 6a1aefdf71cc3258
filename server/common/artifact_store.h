// Stores finished files. Thread-safe. A key is a relative path of 1 to 8 parts of 1 to 200 characters from
// [A-Za-z0-9._-], none of which begins with a dot: "<video id>/<attempt>/video.mp4". Calls block on the disk: never
// call them on a gRPC thread.
//
// Errors: InvalidArgument (invalid key), NotFound, PermissionDenied, ResourceExhausted (disk full; nothing is left
// behind), Unavailable (I/O), DataLoss (the file became shorter after Open).
#ifndef KINORA_SERVER_COMMON_ARTIFACT_STORE_H_
#define KINORA_SERVER_COMMON_ARTIFACT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

struct StoredFile {
  int64_t bytes = 0;
  std::string sha256;  // lower-case hex
};

class ArtifactReader {
 public:
  virtual ~ArtifactReader() = default;
  virtual int64_t size() const = 0;
  // Returns up to `limit` bytes from `offset`; empty at the end of the file.
  virtual absl::StatusOr<std::string> Read(int64_t offset, int64_t limit) = 0;
};

class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  // Moves or copies `file` into the store and replaces the key's previous content. Readers never see a partial file;
  // after OK, the file survives a crash of the machine. `file` may be gone afterwards, even after an error.
  virtual absl::StatusOr<StoredFile> Put(std::string_view key, const std::string& file) = 0;
  virtual absl::StatusOr<std::unique_ptr<ArtifactReader>> Open(std::string_view key) = 0;
  // Deletes `prefix` and all keys under "<prefix>/". OK if there are none.
  virtual absl::Status Delete(std::string_view prefix) = 0;
};

// Returns OK if `key` is valid, otherwise InvalidArgument with the reason.
absl::Status CheckArtifactKey(std::string_view key);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ARTIFACT_STORE_H_
