// Simulates a host's service manager that starts a rank of a group: it runs a program and restarts it whenever it exits
// with status 75 or is killed, like systemd's `Restart=on-failure`.
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

  void Signal(int signal);  // to the running process
  // Sends SIGTERM, then SIGKILL if the program does not end. The program is not restarted. Idempotent.
  void Stop();
  // Returns all exit statuses so far, oldest first; 128 + the signal for a killed process.
  std::vector<int> statuses() const;
  std::string Log() const;  // output of all processes so far

 private:
  void Run();

  const std::vector<std::string> arguments_;
  mutable absl::Mutex mu_;
  std::unique_ptr<Process> process_ ABSL_GUARDED_BY(mu_);  // null: no process runs
  std::vector<int> statuses_ ABSL_GUARDED_BY(mu_);
  std::string log_ ABSL_GUARDED_BY(mu_);  // of ended processes
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_TESTS_E2E_LAUNCHER_H_
