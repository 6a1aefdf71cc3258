// Embedded mode: starts the worker process of one group, restarts it when it ends, and takes it along when the frontend
// goes, however it goes: each worker inherits the read end of a pipe and leaves at its end of file. It inherits nothing
// else but the standard streams, so no socket, lock or database of the frontend lives on in it.
//
// Restarts back off: 0.5 s, doubling to 30 s, from the start again once a worker has lived for a minute. Starting and
// waiting are done by threads of its own, none by the caller's.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_SUPERVISOR_H_
#define KINORA_SERVER_FRONTEND_GROUPS_SUPERVISOR_H_

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
  absl::Duration good_life = absl::Minutes(1);
  absl::Duration stop_grace = absl::Seconds(5);  // between the closed pipe and SIGKILL
};

class Supervisor {
 public:
  // A process ended, or could not be started: "exit status 1", "killed by signal 9 (Killed)". On the supervisor's
  // thread.
  using EndListener =
      std::function<void(const std::string& group, const std::string& incarnation, const std::string& why)>;

  // Starts the first process at once. A binary that cannot be started is logged and tried again like one that ends.
  // `clock` times the pauses; the process itself is waited for in real time.
  Supervisor(SupervisorOptions options, Clock& clock, EndListener on_end);
  ~Supervisor() { Stop(); }

  // SIGKILL, unless `incarnation` is no longer the present one; it is started again after the pause. Any thread.
  void Kill(const std::string& incarnation);
  // Closes the pipe, waits for the process, kills it after stop_grace. Blocks. Idempotent.
  void Stop();
  pid_t pid() const;  // 0: none at present

 private:
  void Run();
  absl::Status Spawn(const std::string& incarnation);
  std::string WaitForEnd();
  bool Pause(absl::Duration pause);  // false: stopping

  const SupervisorOptions options_;
  Clock& clock_;
  const EndListener on_end_;
  mutable absl::Mutex mu_;
  std::string incarnation_ ABSL_GUARDED_BY(mu_);
  pid_t pid_ ABSL_GUARDED_BY(mu_) = 0;      // not yet waited for, so the number is the process's own
  int lifeline_ ABSL_GUARDED_BY(mu_) = -1;  // write end
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_SUPERVISOR_H_
