// The directory that holds all that a frontend keeps: nobody but its user may look into it or write there. Locked for
// as long as the object lives: a second frontend on the same directory refuses to start. The lock goes with the
// process, however it ends.
#ifndef KINORA_SERVER_FRONTEND_JOBS_STATE_DIRECTORY_H_
#define KINORA_SERVER_FRONTEND_JOBS_STATE_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

class StateDirectory {
 public:
  // Creates it (mode 0700) if needed; its parent must be there. What lies in it follows: jobs.db and its companions and
  // artifacts/ are made 0600 and 0700. FailedPrecondition, each with what to do: another process has it; it, or one of
  // those, belongs to another user; it has permissions for group or others.
  static absl::StatusOr<StateDirectory> Lock(const std::string& path);

  // What Lock would say of the directory as it is, without making or locking anything. OK too if it is not there and
  // can be made.
  static absl::Status Check(const std::string& path);

  const std::string& path() const { return path_; }  // absolute
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  StateDirectory(std::string path, FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileDescriptor lock_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_STATE_DIRECTORY_H_
