#include "server/common/lifeline.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"
#include "engine/base/uninterrupted.h"

namespace kinora {

absl::Status HoldOnToLifeline(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("lifeline_fd: ", fd, " is not a pipe of a supervisor"));
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // child processes must not inherit it
  std::thread([fd] {
    char byte;
    while (Uninterrupted([&] { return read(fd, &byte, 1); }) > 0) {
    }
    Log(Severity::kInfo, "frontend_gone", {});
    FlushLog();
    _exit(0);
  }).detach();
  return absl::OkStatus();
}

}  // namespace kinora
