// Embedded mode: starts the processes of one worker group, one per rank. If one process ends, it stops the others and
// restarts the group. The processes end with the frontend, however that ends (child_process.h).
//
// Each start of the group is an incarnation with its own name and secret (child_process.h). The pause before a restart
// begins at 0.5 s, doubles up to 30 s, and is reset once an incarnation has lived for a minute. A worker exits with
// status 2 if its configuration or files are invalid; after three such ends in a row the supervisor restarts the group
// only once the files have changed or Restart is called. A thread of the supervisor starts and awaits the processes.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_GROUP_SUPERVISOR_H_
#define KINORA_SERVER_FRONTEND_GROUPS_GROUP_SUPERVISOR_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/frontend/groups/child_process.h"

namespace kinora {

struct GroupSupervisorOptions {
  std::string binary;  // kinora-worker
  // Flags common to all ranks; --lifeline-fd, --secret-fd, --incarnation, --rank and --world-size are added.
  std::vector<std::string> arguments;
  std::string group = "0";
  int processes = 1;  // ranks
  absl::Duration shortest_pause = absl::Milliseconds(500);
  absl::Duration longest_pause = absl::Seconds(30);
  absl::Duration good_life = absl::Minutes(1);
  absl::Duration stop_grace = absl::Seconds(5);  // from closing the lifelines to SIGKILL
  // Returns the state of the files that the processes read: a different text once one has changed. Empty: restarts
  // never stop.
  std::function<std::string()> files{};
  int wrong_ends = 3;
  absl::Duration files_pause = absl::Seconds(2);  // between two calls of `files`
  std::function<void()> on_give_up{};             // on the supervisor's thread; optional
  // Runs before the processes of an incarnation start, with its name and the secret that only they receive. On the
  // supervisor's thread; optional.
  std::function<void(const std::string& incarnation, const std::string& secret)> on_begin;
  // Runs after a process of an incarnation has ended, before EndListener. On the supervisor's thread; optional.
  std::function<void(pid_t pid)> on_process_end{};
};

class GroupSupervisor {
 public:
  // Runs once all processes of an incarnation have ended, or it could not be started. `why` is about the process that
  // ended first: "exit status 1", "killed by signal 9 (Killed)", with the prefix "rank 1: " in a group of several. On
  // the supervisor's thread.
  using EndListener =
      std::function<void(const std::string& group, const std::string& incarnation, const std::string& why)>;

  // Starts the first incarnation at once. A binary that cannot be started is logged and retried like one that exits.
  // `clock` times the pauses; the processes themselves are awaited in real time.
  GroupSupervisor(GroupSupervisorOptions options, Clock& clock, EndListener on_end);
  ~GroupSupervisor() { Stop(); }

  // Sends SIGKILL to every process if `incarnation` is the present one; they are started again after the pause. Any
  // thread.
  void Kill(const std::string& incarnation);
  // Sends SIGKILL to every process and starts the group again at once, also while it pauses or waits for changed files.
  // Any thread.
  void Restart();
  const std::string& group() const { return options_.group; }
  // Closes the lifelines, waits for the processes and kills them after stop_grace. Blocks. Idempotent.
  void Stop();
  std::vector<pid_t> pids() const;  // in rank order; empty if none runs

 private:
  void Run();
  std::string LiveOnce(const std::string& incarnation);  // returns why the incarnation ended
  absl::Status Spawn(const std::string& incarnation, const std::string& secret);
  std::string WaitForEnd();
  bool Pause(absl::Duration pause);  // false if stopping
  // Waits until the files' state differs from `files`, or for Restart. Returns false if stopping.
  bool AwaitOtherFiles(const std::string& files);

  const GroupSupervisorOptions options_;
  Clock& clock_;
  const EndListener on_end_;
  mutable absl::Mutex mu_;
  std::string incarnation_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<ChildProcess>> children_ ABSL_GUARDED_BY(mu_);  // by rank; changed only by thread_
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool restart_ ABSL_GUARDED_BY(mu_) = false;  // requested since the last start
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_GROUP_SUPERVISOR_H_
