#include "server/gateway/spool_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/common/file_error.h"

namespace kinora {
namespace {

constexpr char kAbout[] = "the gateway's scratch folder";

// Not every file system has O_TMPFILE.
FileDescriptor OpenNameless(const std::string& folder) {
  FileDescriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.ok() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string path = absl::StrCat(folder, "/kinora-upload-XXXXXX");
  file = FileDescriptor(mkostemp(path.data(), O_CLOEXEC));
  if (file.ok()) unlink(path.c_str());
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpoolFile>> SpoolFile::Create(const std::string& folder) {
  FileDescriptor file = OpenNameless(folder);
  if (!file.ok()) return FileError(kAbout, "create a file");
  return std::unique_ptr<SpoolFile>(new SpoolFile(std::move(file)));
}

absl::Status SpoolFile::Append(std::string_view bytes) {
  sum_.Update(bytes);
  while (!bytes.empty()) {
    const ssize_t count = write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(kAbout, "write an upload");
    bytes.remove_prefix(static_cast<size_t>(count));
    size_ += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SpoolFile::Read(int64_t offset, size_t most) const {
  std::string bytes(most, '\0');
  while (true) {
    const ssize_t count = pread(file_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(kAbout, "read an upload");
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
}

}  // namespace kinora
