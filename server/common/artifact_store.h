// Where finished files live. Thread-safe. Keys are relative paths of 1 to 8 parts of [A-Za-z0-9._-], none of which
// begins with a dot: "<video id>/<attempt>/video.mp4". Calls block on the disk: never from a gRPC thread.
//
// Errors: InvalidArgument (not a key), NotFound, ResourceExhausted (disk full; nothing is left behind), Unavailable
// (I/O), DataLoss (the file is not what was put).
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
  // Up to `limit` bytes from `offset`; empty at the end.
  virtual absl::StatusOr<std::string> Read(int64_t offset, int64_t limit) = 0;
};

class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  // Moves or copies the file into the store. `key` is readable only once this returned OK, and then survives a crash of
  // the machine. Replaces what the key held before. `file` may be gone afterwards, also after an error.
  virtual absl::StatusOr<StoredFile> Put(std::string_view key, const std::string& file) = 0;
  virtual absl::StatusOr<std::unique_ptr<ArtifactReader>> Open(std::string_view key) = 0;
  virtual absl::Status Delete(std::string_view prefix) = 0;  // `prefix` itself and all keys under "<prefix>/"; none: OK
};

// OK if `key` is one; names what is wrong.
absl::Status CheckArtifactKey(std::string_view key);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ARTIFACT_STORE_H_
