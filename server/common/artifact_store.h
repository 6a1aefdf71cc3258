// Stores finished files. Thread-safe. A key is a relative path of 1 to 8 parts of 1 to 200 characters from
// [A-Za-z0-9._-], none of which begins with a dot: "<video id>/<attempt>/video.mp4". Calls block on the disk or the
// network: never call them on a gRPC thread.
//
// Errors: InvalidArgument (invalid key), NotFound, PermissionDenied, ResourceExhausted (disk full; nothing is left
// behind), Unavailable (I/O), DataLoss (the file became shorter while it was read).
#ifndef KINORA_SERVER_COMMON_ARTIFACT_STORE_H_
#define KINORA_SERVER_COMMON_ARTIFACT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kinora {

struct StoredFile {
  int64_t bytes = 0;
  std::string sha256;  // lower-case hex
};

struct ArtifactPiece {
  std::string data;
  int64_t size = 0;  // of the whole file
};

struct LinkRequest {
  absl::Duration lifetime;            // 1 s to 7 days
  std::string media_type, file_name;  // that a browser is told
};

struct ArtifactLink {
  std::string url;
  absl::Time expiry;
};

// A file on its way into a store; no key names it yet. Its destructor discards it unless it was committed. One call at
// a time. Errors are worded for clients, without folders; ResourceExhausted has the reason DISK_FULL.
class StagedArtifact {
 public:
  virtual ~StagedArtifact() = default;
  virtual absl::Status Append(std::string_view data) = 0;
  // Gives the file its key and returns what is stored. Readers never see a partial file; after OK, the file survives a
  // crash of the machine. If the key has other content, a store may replace it or fail with AlreadyExists. Call once.
  virtual absl::StatusOr<StoredFile> Commit() = 0;
};

class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  virtual absl::StatusOr<std::unique_ptr<StagedArtifact>> Begin(std::string_view key) = 0;
  virtual absl::StatusOr<int64_t> Size(std::string_view key) = 0;
  // Returns up to `limit` bytes, at least 1, from `offset`; none at the end of the file and behind it.
  virtual absl::StatusOr<ArtifactPiece> Read(std::string_view key, int64_t offset, int64_t limit) = 0;
  virtual int64_t piece_bytes() const = 0;  // with this limit Read is fast and takes little memory
  // How many threads may use the store before they wait for each other.
  virtual int lanes() const = 0;
  // Returns a URL from which anyone can read the file until it expires. Does not check that there is one.
  // FailedPrecondition: this store has no such URLs.
  virtual absl::StatusOr<ArtifactLink> Link(std::string_view key, const LinkRequest& request) = 0;
  // Returns all keys under "<prefix>/", in any order.
  virtual absl::StatusOr<std::vector<std::string>> Keys(std::string_view prefix) = 0;
  // Deletes `prefix` and all keys under "<prefix>/". OK if there are none.
  virtual absl::Status Delete(std::string_view prefix) = 0;
  // Returns the first parts of all keys, each once, in any order. May include parts of deleted keys.
  virtual absl::StatusOr<std::vector<std::string>> FirstParts() = 0;
  // Fails with ResourceExhausted if `bytes` bytes might not fit now.
  virtual absl::Status CheckRoom(int64_t bytes) = 0;
};

// Returns OK if `key` is valid, otherwise InvalidArgument with the reason.
absl::Status CheckArtifactKey(std::string_view key);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ARTIFACT_STORE_H_
