#include "server/frontend/inputs/part_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"
#include "server/common/file_error.h"
#include "server/common/media_type.h"
#include "server/common/status_details.h"

namespace kinora {
namespace {

absl::Status PartError(const std::string& path, const char* verb) {
  const absl::Status status = FileError(path, verb);
  return absl::IsResourceExhausted(status) ? WithErrorInfo(WithRetryInfo(status, absl::Minutes(1)), "DISK_FULL")
                                           : status;
}

}  // namespace

absl::Status PartFolder::Make() const {
  return mkdir(path_.c_str(), 0700) == 0 || errno == EEXIST ? absl::OkStatus() : FileError(path_, "create directory");
}

absl::Status PartFolder::Begin(const std::string& sha256, int64_t bytes) const {
  const std::string path = PathOf(sha256);
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.ok()) return PartError(path, "create");
  return ftruncate(file.get(), bytes) == 0 ? absl::OkStatus() : PartError(path, "cut");
}

absl::Status PartFolder::Write(const std::string& sha256, std::string_view data, int64_t& at) const {
  const std::string path = PathOf(sha256);
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.ok()) return PartError(path, "open");
  while (!data.empty()) {
    const ssize_t n = pwrite(file.get(), data.data(), data.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return PartError(path, "write");
    data.remove_prefix(n);
    at += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartFolder::Head(const std::string& sha256) const {
  const std::string path = PathOf(sha256);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string head(kMediaHead, '\0');
  const ssize_t n = file.ok() ? pread(file.get(), head.data(), head.size(), 0) : -1;
  if (n < 0) return PartError(path, "read");
  head.resize(n);
  return head;
}

int64_t PartFolder::Bytes(const std::string& sha256) const {
  struct stat info;
  return stat(PathOf(sha256).c_str(), &info) == 0 ? info.st_size : 0;
}

void PartFolder::Remove(const std::string& sha256) const { unlink(PathOf(sha256).c_str()); }

int64_t RemoveOthers(const std::string& folder, const std::function<bool(const std::string& name)>& kept) {
  namespace fs = std::filesystem;
  int64_t removed = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (kept(entry.path().filename().string())) continue;
    std::error_code failed;
    removed += fs::remove(entry.path(), failed) ? 1 : 0;
  }
  return removed;
}

}  // namespace kinora
