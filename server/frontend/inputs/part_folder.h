// The files of inputs that are not whole yet, each named by the sha256 that it will have. Plain calls on the disk.
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
  // A file of `bytes` bytes: what there was after them is cut off.
  absl::Status Begin(const std::string& sha256, int64_t bytes) const;
  // Adds to `at` what was written, also where not all could be.
  absl::Status Write(const std::string& sha256, std::string_view data, int64_t& at) const;
  absl::StatusOr<std::string> Head(const std::string& sha256) const;  // kMediaHead bytes, fewer of a short file
  int64_t Bytes(const std::string& sha256) const;                     // 0: no file
  void Remove(const std::string& sha256) const;

 private:
  const std::string path_;
};

// Removes the files of `folder` whose names `kept` refuses. How many.
int64_t RemoveOthers(const std::string& folder, const std::function<bool(const std::string& name)>& kept);

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_
