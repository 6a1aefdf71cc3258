#include "server/frontend/inputs/directory_parts.h"

#include <filesystem>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/status_macros.h"
#include "server/request/input_refs.h"

namespace kinora {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<InputParts>> DirectoryParts::Open(std::string path, DirectoryArtifactStore& store) {
  KINORA_RETURN_IF_ERROR(MakeFolder(path));
  return std::unique_ptr<InputParts>(new DirectoryParts(std::move(path), store));
}

absl::StatusOr<StoredFile> DirectoryParts::Commit(const std::string& sha256, const std::string& key) {
  KINORA_ASSIGN_OR_RETURN(StoredFile stored, store_.Put(key, PathOf(sha256)));
  if (stored.sha256 != sha256) KINORA_RETURN_IF_ERROR(store_.Delete(key));
  return stored;
}

// Moves a complete file back to its part if the process was killed after placing the file but before storing its
// record.
void DirectoryParts::Restore(const InputRecord& record, const std::string& stored_folder) {
  std::error_code error;
  const fs::path placed = fs::path(stored_folder) / record.sha256, part = PathOf(record.sha256);
  if (!record.media_type.empty() || fs::exists(part, error)) return;
  if (fs::file_size(placed, error) != static_cast<uintmax_t>(record.bytes) || error) return;
  fs::rename(placed, part, error);
  if (error == std::errc::cross_device_link) {
    fs::copy_file(placed, part, fs::copy_options::overwrite_existing, error);
    if (error) fs::remove(part, error);
  }
  if (fs::exists(part, error)) Log(Severity::kInfo, "input_to_be_completed", {{"input", record.sha256}});
}

int64_t DirectoryParts::Reconcile(const std::vector<InputRecord>& records) {
  const std::string stored_folder = absl::StrCat(store_.root(), "/", kInputsFolder);
  absl::flat_hash_set<std::string> whole;
  for (const InputRecord& record : records) {
    Restore(record, stored_folder);
    if (!record.media_type.empty()) whole.insert(record.sha256);
  }
  return RemoveParts(records) +
         RemoveInputs(stored_folder, [&](const std::string& sha256) { return !whole.contains(sha256); });
}

}  // namespace kinora
