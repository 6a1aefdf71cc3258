// Embedded mode: starts the processes of one worker group, its ranks, and starts all of them again when one has ended;
// a group lives and dies as a unit, so the end of any is the end of all. It takes them along when the frontend goes,
// however it goes (child_process.h).
//
// Each life of the group is an incarnation with a name and a secret of its own (child_process.h). Restarts back off:
// 0.5 s, doubling to 30 s, from the start again once an incarnation has lived for a minute. Three that end one after
// the other with exit status 2, a worker's word for a configuration or files that are wrong, are enough: the next is
// started once the files have changed or Restart is called. Starting and waiting are done by a thread of its own.
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
  // Its flags, the same for each rank; --lifeline-fd, --secret-fd, --incarnation, --rank and --world-size are added.
  std::vector<std::string> arguments;
  std::string group = "0";
  int processes = 1;  // ranks
  absl::Duration shortest_pause = absl::Milliseconds(500);
  absl::Duration longest_pause = absl::Seconds(30);
  absl::Duration good_life = absl::Minutes(1);
  absl::Duration stop_grace = absl::Seconds(5);  // between the closed lifelines and SIGKILL
  // The state of the files that the processes read, another text once one has changed. Empty: starting is never given
  // up.
  std::function<std::string()> files{};
  int wrong_ends = 3;
  absl::Duration files_pause = absl::Seconds(2);  // between two looks at them
  std::function<void()> on_give_up{};             // on the supervisor's thread; may be empty
  // Before the processes of an incarnation start: its name, and the secret that they alone are told. On the
  // supervisor's thread; may be empty.
  std::function<void(const std::string& incarnation, const std::string& secret)> on_begin;
  // A process of an incarnation is no more, before that incarnation's end is told. On the supervisor's thread; may be
  // empty.
  std::function<void(pid_t pid)> on_process_end{};
};

class GroupSupervisor {
 public:
  // An incarnation has ended, every process of it, or it could not be started. `why` is of the process that ended
  // first: "exit status 1", "killed by signal 9 (Killed)", in a group of several after "rank 1: ". On the supervisor's
  // thread.
  using EndListener =
      std::function<void(const std::string& group, const std::string& incarnation, const std::string& why)>;

  // Starts the first incarnation at once. A binary that cannot be started is logged and tried again like one that ends.
  // `clock` times the pauses; the processes themselves are waited for in real time.
  GroupSupervisor(GroupSupervisorOptions options, Clock& clock, EndListener on_end);
  ~GroupSupervisor() { Stop(); }

  // SIGKILL to every process, unless `incarnation` is no longer the present one; they are started again after the
  // pause. Any thread.
  void Kill(const std::string& incarnation);
  // SIGKILL to every process that there is, which are started again at once; so are those of a group that pauses or
  // waits for other files. Any thread.
  void Restart();
  const std::string& group() const { return options_.group; }
  // Closes the lifelines, waits for the processes, kills them after stop_grace. Blocks. Idempotent.
  void Stop();
  std::vector<pid_t> pids() const;  // in rank order; empty: none at present

 private:
  void Run();
  std::string LiveOnce(const std::string& incarnation);  // returns why it ended
  absl::Status Spawn(const std::string& incarnation, const std::string& secret);
  std::string WaitForEnd();
  bool Pause(absl::Duration pause);  // false: stopping
  // Until `files` is no longer their state, or Restart. false: stopping.
  bool AwaitOtherFiles(const std::string& files);

  const GroupSupervisorOptions options_;
  Clock& clock_;
  const EndListener on_end_;
  mutable absl::Mutex mu_;
  std::string incarnation_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<ChildProcess>> children_ ABSL_GUARDED_BY(mu_);  // by rank; changed by thread_ alone
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool restart_ ABSL_GUARDED_BY(mu_) = false;  // asked for since the last start
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_GROUP_SUPERVISOR_H_
