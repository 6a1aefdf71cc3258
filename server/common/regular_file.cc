#include "server/common/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/uninterrupted.h"
#include "server/common/file_error.h"

namespace kinora {

absl::StatusOr<RegularFile> ReadRegularFile(const std::string& path) {
  // O_NONBLOCK: opening a FIFO without a writer returns at once; its type is rejected below.
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info;
  if (!fd.ok() || fstat(fd.get(), &info) != 0) return FileError(path, "read");
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot read: it is not a regular file"));
  }
  RegularFile file{.bytes = std::string(kMaxRegularFile + 1, '\0'), .mode = info.st_mode};
  size_t done = 0;
  while (done < file.bytes.size()) {  // to the end, not to the size that fstat saw: the file may be growing
    const ssize_t n = Uninterrupted([&] { return read(fd.get(), file.bytes.data() + done, file.bytes.size() - done); });
    if (n < 0) return FileError(path, "read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  if (done > kMaxRegularFile) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": cannot read: it has more than ", kMaxRegularFile, " bytes"));
  }
  file.bytes.resize(done);
  return file;
}

}  // namespace kinora
