// InputParts as files of a folder. A complete part becomes an artifact of a DirectoryArtifactStore without a copy if
// both are on one file system.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_DIRECTORY_PARTS_H_
#define KINORA_SERVER_FRONTEND_INPUTS_DIRECTORY_PARTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/common/directory_artifact_store.h"
#include "server/frontend/inputs/part_folder.h"

namespace kinora {

class DirectoryParts : public PartFolder {
 public:
  // Creates the folder if needed. store: not owned.
  static absl::StatusOr<std::unique_ptr<InputParts>> Open(std::string path, DirectoryArtifactStore& store);

  absl::StatusOr<StoredFile> Commit(const std::string& sha256, const std::string& key) override;
  // An input that Commit stored, but whose record is incomplete, becomes a part again.
  int64_t Reconcile(const std::vector<InputRecord>& records) override;

 private:
  DirectoryParts(std::string path, DirectoryArtifactStore& store) : PartFolder(std::move(path)), store_(store) {}
  void Restore(const InputRecord& record, const std::string& stored_folder);

  DirectoryArtifactStore& store_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_DIRECTORY_PARTS_H_
