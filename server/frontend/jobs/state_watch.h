// Checks that the frontend's files and folders are still the ones that it opened. A process can go on writing to a file
// that was removed, moved or replaced, but that data is lost at the next start.
#ifndef KINORA_SERVER_FRONTEND_JOBS_STATE_WATCH_H_
#define KINORA_SERVER_FRONTEND_JOBS_STATE_WATCH_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

class StateWatch {
 public:
  // Watches that `path` keeps referring to its present file or folder. Not thread-safe.
  absl::Status Add(const std::string& path);

  // FailedPrecondition, with the path: it is missing or refers to another file. Other stat errors count as OK; the next
  // write will report them. One stat per path. Thread-safe.
  absl::Status Check() const;

 private:
  struct Watched {
    std::string path;
    // O_PATH: keeps the inode number from being reused, and closing it releases no locks.
    FileDescriptor held;
    dev_t device;
    ino_t inode;
  };
  std::vector<Watched> watched_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_STATE_WATCH_H_
