// What starts the ranks of a group on their hosts in a cluster: runs one program, and again whenever it leaves with
// exit status 75 or is killed, as `Restart=on-failure` of systemd does, until it leaves otherwise.
#ifndef KINORA_TESTS_E2E_LAUNCHER_H_
#define KINORA_TESTS_E2E_LAUNCHER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/e2e/process.h"

namespace kinora {

class Launcher {
 public:
  static constexpr int kStartAgain = 75;

  explicit Launcher(std::vector<std::string> arguments);
  ~Launcher() { Stop(); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void Signal(int signal);  // to the process that runs now
  // SIGTERM, after which the program is not started again; SIGKILL if that does not end it. Idempotent.
  void Stop();
  // Exit statuses so far, oldest first; 128 + the signal that ended it.
  std::vector<int> statuses() const;
  std::string Log() const;  // what all of them have said

 private:
  void Run();

  const std::vector<std::string> arguments_;
  mutable absl::Mutex mu_;
  std::unique_ptr<Process> process_ ABSL_GUARDED_BY(mu_);  // null: none runs
  std::vector<int> statuses_ ABSL_GUARDED_BY(mu_);
  std::string log_ ABSL_GUARDED_BY(mu_);  // of those that have ended
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_LAUNCHER_H_
