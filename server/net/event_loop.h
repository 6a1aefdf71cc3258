// One thread that runs closures in the order in which they were posted, and timers. State that only one loop touches
// needs no lock. A task must not wait for its own loop.
#ifndef KINORA_SERVER_NET_EVENT_LOOP_H_
#define KINORA_SERVER_NET_EVENT_LOOP_H_

#include <deque>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

class EventLoop {
 public:
  using Task = absl::AnyInvocable<void()>;

  explicit EventLoop(Clock& clock);
  ~EventLoop() { Stop(); }

  void Post(Task task);  // any thread; after Stop the task is destroyed without running
  void PostAt(absl::Time time, Task task);
  absl::Time Now() const { return clock_.Now(); }
  // Waits for the running task and drops the others. Must not be called on the loop's own thread. Idempotent.
  void Stop();

 private:
  void Run();

  Clock& clock_;
  absl::Mutex mu_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mu_);
  std::multimap<absl::Time, Task> timers_ ABSL_GUARDED_BY(mu_);
  bool timers_changed_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kinora

#endif  // KINORA_SERVER_NET_EVENT_LOOP_H_
