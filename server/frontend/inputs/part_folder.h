// The files of incomplete inputs (parts), each named by the expected SHA-256. All calls block on the disk.
//
// Errors: ResourceExhausted (DISK_FULL), and those of FileError.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_
#define KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kinora {

class PartFolder {
 public:
  explicit PartFolder(std::string path) : path_(std::move(path)) {}

  absl::Status Make() const;
  std::string PathOf(const std::string& sha256) const { return path_ + "/" + sha256; }
  // Creates the file if needed and truncates or extends it to `bytes` bytes.
  absl::Status Begin(const std::string& sha256, int64_t bytes) const;
  // Writes `data` at `at` and advances `at` by the bytes written, even on failure.
  absl::Status Write(const std::string& sha256, std::string_view data, int64_t& at) const;
  absl::StatusOr<std::string> Head(const std::string& sha256) const;  // the first kMediaHead bytes, or fewer
  int64_t Bytes(const std::string& sha256) const;                     // 0: no file
  void Remove(const std::string& sha256) const;

 private:
  const std::string path_;
};

// Removes the files in `folder` whose names `chosen` accepts and returns their number. If `folder` is a symbolic link
// it only logs a warning, since the target may belong to someone else.
int64_t RemoveFiles(const std::string& folder, const std::function<bool(const std::string& name)>& chosen);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_
