// The directory with all persistent state of a frontend, private to its user. It is locked while the object lives, so a
// second frontend on the same directory fails to start. The kernel releases the lock when the process ends.
#ifndef KINORA_SERVER_FRONTEND_JOBS_STATE_DIRECTORY_H_
#define KINORA_SERVER_FRONTEND_JOBS_STATE_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

class StateDirectory {
 public:
  // Creates the directory (mode 0700) if needed; its parent must exist. Removes the permissions of group and others
  // from jobs.db, its companions and artifacts/. FailedPrecondition, with a remedy: another process has locked it, it
  // or one of these belongs to another user, or the directory has permissions for group or others.
  static absl::StatusOr<StateDirectory> Lock(const std::string& path);

  // Returns the errors of Lock except a held lock, without creating or locking anything. OK also if the directory does
  // not exist but can be created.
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
