// Whether the files and folders that a frontend keeps are still the ones that it opened. A file that was removed, moved
// or replaced goes on taking what is written to it, and all of that is gone after a restart.
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
  // From now on `path` must lead to what it leads to now. Not thread-safe.
  absl::Status Add(const std::string& path);

  // Thread-safe; one stat per path. FailedPrecondition, with the path: something else is there, or nothing. Whatever
  // else keeps the answer from being found out is OK: what is written next will say it.
  absl::Status Check() const;

 private:
  struct Watched {
    std::string path;
    FileDescriptor
        held;  // O_PATH: no other file gets its number as long as it is open, and no lock goes when it closes
    dev_t device;
    ino_t inode;
  };
  std::vector<Watched> watched_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_STATE_WATCH_H_
