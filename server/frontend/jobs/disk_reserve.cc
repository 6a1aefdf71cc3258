#include "server/frontend/jobs/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "server/common/file_error.h"
#include "server/common/status_details.h"

namespace kinora {

bool DiskReserve::Open() {
  if (!file_.ok()) {
    file_ = FileDescriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  }
  return file_.ok();
}

absl::Status DiskReserve::Fill() {
  if (whole_) return absl::OkStatus();
  const std::string name = path_.substr(path_.rfind('/') + 1);  // without the folder, because clients see it
  struct stat info;
  if (!Open() || fstat(file_.get(), &info) != 0) return FileError(name, "open");
  if (const int error = posix_fallocate(file_.get(), 0, kBytes); error != 0) {
    (void)!ftruncate(file_.get(), std::min<int64_t>(info.st_size, kBytes));  // frees what this call allocated
    errno = error;
    const absl::Status status = FileError(name, "keep room for deletes");
    return absl::IsResourceExhausted(status) ? WithErrorInfo(WithRetryInfo(status, absl::Minutes(1)), "DISK_FULL")
                                             : status;
  }
  whole_ = true;
  return absl::OkStatus();
}

bool DiskReserve::Release() {
  struct stat info;
  if (path_.empty() || !Open() || fstat(file_.get(), &info) != 0 || info.st_size == 0) return false;
  whole_ = false;
  return ftruncate(file_.get(), std::max<int64_t>(0, info.st_size - kPiece)) == 0;
}

}  // namespace kinora
