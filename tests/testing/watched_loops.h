// Event loops whose idleness a test can wait for.
#ifndef KINORA_TESTS_TESTING_WATCHED_LOOPS_H_
#define KINORA_TESTS_TESTING_WATCHED_LOOPS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "server/net/event_loop.h"

namespace kinora {

class WatchedLoops {
 public:
  // clock: of all loops. Both it and this object must outlive the loops.
  explicit WatchedLoops(Clock& clock) : clock_(clock) {}

  std::unique_ptr<Executor> Make() { return std::make_unique<Loop>(*this); }

  // Blocks until no loop runs a task or has one whose time has come. Returns the number of tasks that have ended.
  // CHECK-fails after 30 s.
  int64_t AwaitIdle() {
    const auto idle = [this] {
      mu_.AssertHeld();
      return due_.empty() || *due_.begin() > clock_.Now();
    };
    absl::MutexLock lock(&mu_);
    KINORA_CHECK(mu_.AwaitWithTimeout(absl::Condition(&idle), absl::Seconds(30))) << "a loop does not become idle";
    return ended_;
  }

 private:
  // Counts a task as long as it lives: a loop destroys it once it has run.
  class Counted {
   public:
    Counted(WatchedLoops& loops, absl::Time time, Executor::Task task)
        : entry_{loops, loops.Add(time)}, task_(std::move(task)) {}
    void operator()() { task_(); }

   private:
    struct Entry {
      Entry(WatchedLoops& loops, std::multiset<absl::Time>::iterator at) : loops(&loops), at(at) {}
      Entry(Entry&& other) noexcept : loops(std::exchange(other.loops, nullptr)), at(other.at) {}
      ~Entry() {
        if (loops != nullptr) loops->End(at);
      }
      WatchedLoops* loops;
      std::multiset<absl::Time>::iterator at;
    };
    Entry entry_;  // outlives task_, whose destruction may post another
    Executor::Task task_;
  };

  class Loop : public Executor {
   public:
    explicit Loop(WatchedLoops& loops) : loops_(loops), loop_(loops.clock_) {}
    void Post(Task task) override { loop_.Post(Counted(loops_, absl::InfinitePast(), std::move(task))); }
    void PostAt(absl::Time time, Task task) override { loop_.PostAt(time, Counted(loops_, time, std::move(task))); }
    absl::Time Now() const override { return loop_.Now(); }
    void Stop() override { loop_.Stop(); }

   private:
    WatchedLoops& loops_;
    EventLoop loop_;
  };

  std::multiset<absl::Time>::iterator Add(absl::Time time) {
    absl::MutexLock lock(&mu_);
    return due_.insert(time);
  }
  void End(std::multiset<absl::Time>::iterator at) {
    absl::MutexLock lock(&mu_);
    due_.erase(at);
    ++ended_;
  }

  Clock& clock_;
  absl::Mutex mu_;
  std::multiset<absl::Time> due_ ABSL_GUARDED_BY(mu_);  // of tasks that have not ended
  int64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_WATCHED_LOOPS_H_
