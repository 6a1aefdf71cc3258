#include "server/worker/lifeline.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/logging.h"

namespace kinora {

absl::Status HoldOnToLifeline(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("lifeline_fd: ", fd, " is no pipe of a supervisor"));
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // a process that this one starts must not keep it
  std::thread([fd] {
    char byte;
    ssize_t n;
    do {
      n = read(fd, &byte, 1);
    } while (n > 0 || (n < 0 && errno == EINTR));
    Log(Severity::kInfo, "frontend_gone", {});
    _exit(0);
  }).detach();
  return absl::OkStatus();
}

}  // namespace kinora
