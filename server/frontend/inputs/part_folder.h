// The files of InputParts: a folder, in which each incomplete input is a file named by its expected SHA-256. Where
// complete ones go is for the subclasses.
#ifndef KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_
#define KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/frontend/inputs/input_parts.h"

namespace kinora {

class PartFolder : public InputParts {
 public:
  absl::Status Begin(const std::string& sha256, int64_t bytes) override;
  absl::Status Write(const std::string& sha256, std::string_view data, int64_t& at) override;
  absl::StatusOr<std::string> Head(const std::string& sha256) override;
  int64_t Bytes(const std::string& sha256) const override;
  void Remove(const std::string& sha256) override;

 protected:
  explicit PartFolder(std::string path) : path_(std::move(path)) {}
  static absl::Status MakeFolder(const std::string& path);  // if needed
  std::string PathOf(const std::string& sha256) const { return path_ + "/" + sha256; }
  // Removes the files in the folder whose record is complete or missing, and returns their number.
  int64_t RemoveParts(const std::vector<InputRecord>& records);
  // Removes the files in `folder` whose names are those of inputs that `chosen` accepts, and returns their number. If
  // the folder is a symbolic link, removes nothing and logs a warning, since the target may belong to someone else.
  static int64_t RemoveInputs(const std::string& folder, const std::function<bool(const std::string& sha256)>& chosen);

 private:
  const std::string path_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_INPUTS_PART_FOLDER_H_
