// An executor with a thread of its own. A task must not wait for its own loop.
#ifndef KINORA_SERVER_NET_EVENT_LOOP_H_
#define KINORA_SERVER_NET_EVENT_LOOP_H_

#include <deque>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/net/executor.h"

namespace kinora {

class EventLoop final : public Executor {
 public:
  explicit EventLoop(Clock& clock);
  ~EventLoop() override { Stop(); }

  void Post(Task task) override;
  void PostAt(absl::Time time, Task task) override;
  absl::Time Now() const override { return clock_.Now(); }
  void Stop() override;

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
