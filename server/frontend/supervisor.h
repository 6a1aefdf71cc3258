// Embedded mode: starts the worker process of one group, restarts it when it ends, and takes it along when the frontend
// goes, however it goes: each worker inherits the read end of a pipe and leaves at its end of file.
//
// Restarts back off: 0.5 s, doubling to 30 s, from the start again once a worker has been ready. All work is done by a
// thread of its own (posix_spawn, waiting), none by the caller's.
#ifndef KINORA_SERVER_FRONTEND_SUPERVISOR_H_
#define KINORA_SERVER_FRONTEND_SUPERVISOR_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

struct SupervisorOptions {
  std::string binary;                  // kinora-worker
  std::vector<std::string> arguments;  // its flags; --lifeline-fd and --incarnation are added
  std::string group = "0";
  absl::Duration shortest_pause = absl::Milliseconds(500);
  absl::Duration longest_pause = absl::Seconds(30);
  absl::Duration stop_grace = absl::Seconds(5);  // between the closed pipe and SIGKILL
};

class Supervisor {
 public:
  // A process of `group` ended: "exit status 1", "killed by signal 9 (Killed)". On the supervisor's thread.
  using EndListener =
      std::function<void(const std::string& group, const std::string& incarnation, const std::string& why)>;
  // A process was started; for metrics and logs. `reason`: "start" or why the one before ended.
  using StartListener = std::function<void(const std::string& group, const std::string& incarnation, pid_t pid)>;

  // Starts the first process at once. A binary that cannot be started is logged and tried again like one that ends.
  Supervisor(SupervisorOptions options, Clock& clock, EndListener on_end, StartListener on_start = nullptr);
  ~Supervisor() { Stop(); }

  // Any thread; none blocks. Other incarnations than the present one: ignored.
  void Kill(const std::string& incarnation);       // SIGKILL; it is started again after the pause
  void NoteReady(const std::string& incarnation);  // the pause starts from the shortest again
  // Closes the pipe, waits for the process, kills it after stop_grace. Blocks. Idempotent.
  void Stop();

 private:
  void Run();
  absl::StatusOr<pid_t> Spawn(const std::string& incarnation, int* lifeline);
  std::string WaitForEnd(pid_t pid);

  const SupervisorOptions options_;
  Clock& clock_;
  const EndListener on_end_;
  const StartListener on_start_;
  absl::Mutex mu_;
  std::string incarnation_ ABSL_GUARDED_BY(mu_);
  pid_t pid_ ABSL_GUARDED_BY(mu_) = 0;       // 0: no process
  int lifeline_ ABSL_GUARDED_BY(mu_) = -1;   // write end
  bool ready_ ABSL_GUARDED_BY(mu_) = false;  // this incarnation was
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;  // the thread is done
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_SUPERVISOR_H_
