// A process started by the frontend. It inherits the standard streams (with an empty input), the environment, the read
// ends of two pipes and the descriptors that it is given, but no other socket, lock or database. The first pipe is its
// lifeline: the child exits at its end of file, which the kernel signals however this process ends. The second delivers
// a secret, which would be visible to others as an argument or in the environment.
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
  static constexpr int kLifelineFd = 3, kSecretFd = 4, kFirstGivenFd = 5;  // in the child

  // `arguments`: without the program. secret: at most 4096 bytes, so that it fits into a pipe. process_group: the pid
  // of the child whose group to join; 0 creates a new group, so that Ctrl-C on the frontend's terminal signals only the
  // frontend. given: descriptors of this process, which the child has from kFirstGivenFd on, in their order. Fails with
  // Unavailable, naming the binary.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(const std::string& binary,
                                                             const std::vector<std::string>& arguments,
                                                             const std::string& secret, pid_t process_group = 0,
                                                             const std::vector<int>& given = {});
  ~ChildProcess();  // kills the process and waits, unless Wait has returned
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Blocks until the process has ended and returns how: "exit status 1", "killed by signal 9 (Killed)". Call it once.
  std::string Wait();
  // The following do nothing once Wait has returned. Any thread.
  void CloseLifeline();
  void Terminate();  // SIGTERM
  void Kill();       // SIGKILL

 private:
  ChildProcess(pid_t pid, FileDescriptor lifeline) : pid_(pid), lifeline_(std::move(lifeline)) {}

  void Signal(int signal);

  const pid_t pid_;
  absl::Mutex mu_;
  bool reaped_ ABSL_GUARDED_BY(mu_) = false;  // until then the kernel cannot reuse the pid
  FileDescriptor lifeline_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_CHILD_PROCESS_H_
