// A file without a name, which nobody else can open and which is gone once it is closed.
#ifndef KINORA_SERVER_COMMON_SCRATCH_FILE_H_
#define KINORA_SERVER_COMMON_SCRATCH_FILE_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

class ScratchFile {
 public:
  // Errors are those of FileError and name the folder or a path in it.
  static absl::StatusOr<ScratchFile> In(const std::string& folder);
  absl::Status Append(std::string_view data);
  // Returns a descriptor that can read the file but not write it. Call once, after the last Append.
  FileDescriptor TakeReader() { return std::move(read_); }

 private:
  ScratchFile() = default;

  std::string folder_;
  FileDescriptor write_, read_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_SCRATCH_FILE_H_
