// A process that the frontend starts. It inherits the standard streams (its input is empty), the environment, and the
// read ends of two pipes. One is its lifeline, at whose end of file it is to leave: the kernel ends that pipe however
// this process ends. The other holds a secret, which nobody else can read as an argument or in the environment. Nothing
// else is inherited: no socket, lock or database lives on in a child.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_CHILD_PROCESS_H_
#define KINORA_SERVER_FRONTEND_GROUPS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/file_descriptor.h"

namespace kinora {

class ChildProcess {
 public:
  static constexpr int kLifelineFd = 3, kSecretFd = 4;  // in the child

  // `arguments`: without the program. secret: fits into a pipe, 4096 bytes. process_group: the pid of the child whose
  // group this one joins; 0: one of its own, so that a Ctrl-C on the frontend's terminal is the frontend's to handle.
  // Unavailable, naming the binary.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(const std::string& binary,
                                                             const std::vector<std::string>& arguments,
                                                             const std::string& secret, pid_t process_group = 0);
  ~ChildProcess();  // kills and waits, if nobody has waited
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Blocks until the process has ended, and says how: "exit status 1", "killed by signal 9 (Killed)". Once.
  std::string Wait();
  // The following do nothing once Wait has returned. Any thread.
  void CloseLifeline();
  void Kill();  // SIGKILL

 private:
  ChildProcess(pid_t pid, FileDescriptor lifeline) : pid_(pid), lifeline_(std::move(lifeline)) {}

  const pid_t pid_;
  absl::Mutex mu_;
  bool reaped_ ABSL_GUARDED_BY(mu_) = false;  // until then the number cannot become another process's
  FileDescriptor lifeline_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_CHILD_PROCESS_H_
