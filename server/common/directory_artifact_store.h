// Artifacts in a directory: <root>/<key>. Files are written elsewhere, synced, renamed into place, and the directories
// synced, so a key is whole or absent after a crash. A frontend and its workers open the same root at once.
#ifndef KINORA_SERVER_COMMON_DIRECTORY_ARTIFACT_STORE_H_
#define KINORA_SERVER_COMMON_DIRECTORY_ARTIFACT_STORE_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "server/common/artifact_store.h"

namespace kinora {

class DirectoryArtifactStore : public ArtifactStore {
 public:
  // Creates `root` (mode 0700) if needed. Unavailable or PermissionDenied with the path otherwise.
  static absl::StatusOr<std::unique_ptr<DirectoryArtifactStore>> At(const std::string& root);

  // A path inside the store for writing a file that is to be Put under `key`: on the same file system, so Put is a
  // rename. Its directory exists. What a crash leaves of them stays until one of the next two.
  absl::StatusOr<std::string> TemporaryPath(std::string_view key);
  absl::Status RemoveUnfinished();             // at the start of the one frontend, before workers
  absl::Status RemoveUnfinishedOf(pid_t pid);  // of a process of this machine that has ended
  absl::StatusOr<int64_t> FreeBytes() const;   // for an unprivileged process

  absl::StatusOr<StoredFile> Put(std::string_view key, const std::string& file) override;
  absl::StatusOr<std::unique_ptr<ArtifactReader>> Open(std::string_view key) override;
  absl::Status Delete(std::string_view prefix) override;

  const std::string& root() const { return root_; }

 private:
  absl::Status RemoveTemporary(std::string_view beginning);  // files whose names begin so

  explicit DirectoryArtifactStore(std::string root) : root_(std::move(root)) {}
  const std::string root_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_DIRECTORY_ARTIFACT_STORE_H_
