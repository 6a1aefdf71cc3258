// Artifacts in a directory: <root>/<key>. A file is written elsewhere, synced and renamed into place, and its
// directories are synced, so after a crash a key is complete or absent. A frontend and its workers may open the same
// root at the same time: a worker writes its files in place (ArtifactWriter) and reads inputs without a copy
// (OpenFile).
#ifndef KINORA_SERVER_COMMON_DIRECTORY_ARTIFACT_STORE_H_
#define KINORA_SERVER_COMMON_DIRECTORY_ARTIFACT_STORE_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "server/common/file_artifact_store.h"

namespace kinora {

class DirectoryArtifactStore : public FileArtifactStore {
 public:
  // Creates `root` (mode 0700) and its temporary folder if needed. Errors are those of FileError and name the path.
  static absl::StatusOr<std::unique_ptr<DirectoryArtifactStore>> At(const std::string& root);

  // Opens the store without accessing the disk. Calls fail while `root` does not exist.
  static std::unique_ptr<DirectoryArtifactStore> Named(const std::string& root);

  // On the store's file system, so Put only renames the file; At creates its folder. After a crash the file stays until
  // RemoveUnfinished or RemoveUnfinishedOf.
  absl::StatusOr<std::string> TemporaryPath(std::string_view key) override;
  // Remove files with names from TemporaryPath and nothing else. If the temporary folder is a link, they log that and
  // remove nothing.
  absl::Status RemoveUnfinished();             // all; when the only frontend starts, before its workers
  absl::Status RemoveUnfinishedOf(pid_t pid);  // those of an ended process of this machine

  absl::StatusOr<StoredFile> Put(std::string_view key, const std::string& file) override;  // moves or copies it
  absl::Status ForClients(const absl::Status& status, const std::string& file, std::string_view key) const override;
  absl::StatusOr<FileDescriptor> OpenFile(std::string_view key) const override;
  absl::StatusOr<ScratchFile> MakeScratchFile() override { return ScratchFile::In(root_); }

  absl::StatusOr<std::unique_ptr<StagedArtifact>> Begin(std::string_view key) override;
  absl::StatusOr<int64_t> Size(std::string_view key) override;
  absl::StatusOr<ArtifactPiece> Read(std::string_view key, int64_t offset, int64_t limit) override;
  int64_t piece_bytes() const override { return 256 << 10; }
  int lanes() const override { return 1; }
  absl::StatusOr<ArtifactLink> Link(std::string_view key, const LinkRequest& request) override;
  absl::StatusOr<std::vector<std::string>> Keys(std::string_view prefix) override;
  absl::Status Delete(std::string_view prefix) override;
  absl::StatusOr<std::vector<std::string>> FirstParts() override;
  absl::Status CheckRoom(int64_t bytes) override;

  const std::string& root() const { return root_; }

 protected:
  explicit DirectoryArtifactStore(const std::string& root);  // as Named
  absl::StatusOr<int64_t> FreeBytes() const;                 // available to an unprivileged process

 private:
  absl::StatusOr<FileDescriptor> OpenKey(std::string_view key, struct stat* info) const;
  absl::Status RemoveTemporary(std::string_view beginning);  // files whose names begin with `beginning`

  const std::string root_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_DIRECTORY_ARTIFACT_STORE_H_
