// InputParts as files of a folder. A complete part becomes an artifact of a DirectoryArtifactStore without a copy if
// both are on one file system.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_
#define KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/common/directory_artifact_store.h"
#include "server/frontend/inputs/input_parts.h"

namespace kinora {

class PartFolder : public InputParts {
 public:
  // Creates the folder if needed. store: not owned.
  static absl::StatusOr<std::unique_ptr<PartFolder>> Open(std::string path, DirectoryArtifactStore& store);

  absl::Status Begin(const std::string& sha256, int64_t bytes) override;
  absl::Status Write(const std::string& sha256, std::string_view data, int64_t& at) override;
  absl::StatusOr<std::string> Head(const std::string& sha256) override;
  int64_t Bytes(const std::string& sha256) const override;
  void Remove(const std::string& sha256) override;
  absl::StatusOr<StoredFile> Commit(const std::string& sha256, const std::string& key) override;
  // If one of the two folders is a symbolic link, it removes nothing there and logs a warning, since the target may
  // belong to someone else.
  int64_t Reconcile(const std::vector<InputRecord>& records) override;

 private:
  PartFolder(std::string path, DirectoryArtifactStore& store) : path_(std::move(path)), store_(store) {}
  std::string PathOf(const std::string& sha256) const { return path_ + "/" + sha256; }
  void Restore(const InputRecord& record, const std::string& stored_folder);

  const std::string path_;
  DirectoryArtifactStore& store_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_
