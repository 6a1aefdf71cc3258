#include "server/common/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"

namespace kinora {

absl::StatusOr<ScratchFile> ScratchFile::In(const std::string& folder) {
  std::string path = absl::StrCat(folder, "/.input-XXXXXX");
  ScratchFile file;
  file.folder_ = folder;
  file.write_ = FileDescriptor(mkostemp(path.data(), O_CLOEXEC));
  if (!file.write_.ok()) return FileError(path, "create");
  file.read_ = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const absl::Status opened = file.read_.ok() ? absl::OkStatus() : FileError(path, "open");
  unlink(path.c_str());
  KINORA_RETURN_IF_ERROR(opened);
  return file;
}

absl::Status ScratchFile::Append(std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = Uninterrupted([&] { return write(write_.get(), data.data(), data.size()); });
    if (n < 0) return FileError(folder_, "write an input in");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace kinora
