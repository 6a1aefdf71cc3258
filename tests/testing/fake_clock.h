// A clock that moves only when a test advances it. Advance wakes AwaitUntil callers whose deadline it passes.
#ifndef KINORA_TESTS_TESTING_FAKE_CLOCK_H_
#define KINORA_TESTS_TESTING_FAKE_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time now = absl::FromUnixSeconds(1'700'000'000)) : now_(now) {}

  absl::Time Now() const override {
    absl::MutexLock lock(&mu_);
    return now_;
  }

  // Advances time and wakes every waiter whose deadline passes. The caller must not hold a mutex that a waiter waits
  // on.
  void Advance(absl::Duration by) {
    std::set<absl::Mutex*> waiting;
    {
      absl::MutexLock lock(&mu_);
      now_ += by;
      for (const auto& waiter : waiters_) waiting.insert(&waiter->mu);
    }
    // absl::Mutex re-evaluates its waiters' conditions only on an unlock.
    for (absl::Mutex* mu : waiting) {
      mu->Lock();
      mu->Unlock();
    }
  }

  // `mu` must outlive the clock's use: Advance may lock it until the waiter has left.
  bool AwaitUntil(absl::Mutex& mu, const absl::Condition& condition,
                  absl::Time deadline) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    auto self = std::make_shared<Waiter>(Waiter{mu, condition, deadline});
    {
      absl::MutexLock lock(&mu_);
      waiters_.insert(self);
      changes_ += 1;
    }
    auto done = [&] { return condition.Eval() || Now() >= deadline; };
    mu.Await(absl::Condition(&done));
    const bool holds = condition.Eval();
    self->left = true;
    absl::MutexLock lock(&mu_);
    waiters_.erase(self);
    changes_ += 1;
    return holds;
  }

  // Blocks until `count` threads are idle in AwaitUntil. Threads whose deadline has passed or whose condition holds,
  // but which have not run yet, do not count. Afterwards the work that the test caused is done, and these threads will
  // see Advance. The caller must not hold a mutex that a waiter waits on.
  void AwaitWaiters(int count) {
    while (true) {
      std::set<std::shared_ptr<Waiter>> waiters;
      int seen = 0;
      {
        absl::MutexLock lock(&mu_);
        waiters = waiters_;
        seen = changes_;
      }
      const auto idle = std::count_if(waiters.begin(), waiters.end(), [this](const auto& w) { return IsIdle(*w); });
      if (idle >= count) return;
      auto changed = [&] {
        mu_.AssertHeld();
        return changes_ != seen;
      };
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&changed));
    }
  }

 private:
  struct Waiter {
    absl::Mutex& mu;
    const absl::Condition& condition;  // valid until the waiter leaves
    const absl::Time deadline;
    bool left = false;  // guarded by mu
  };

  bool IsIdle(const Waiter& waiter) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::MutexLock lock(&waiter.mu);
    return !waiter.left && !waiter.condition.Eval() && Now() < waiter.deadline;
  }

  mutable absl::Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
  std::set<std::shared_ptr<Waiter>> waiters_ ABSL_GUARDED_BY(mu_);
  int changes_ ABSL_GUARDED_BY(mu_) = 0;  // incremented when a waiter enters or leaves
};

// Another clock plus an offset that Step changes, like a system date that is set by hand.
class SteppingDate : public Clock {
 public:
  explicit SteppingDate(Clock& clock) : clock_(clock) {}
  void Step(absl::Duration by) { step_ += absl::ToInt64Nanoseconds(by); }
  absl::Time Now() const override { return clock_.Now() + absl::Nanoseconds(step_.load()); }
  bool AwaitUntil(absl::Mutex& mu, const absl::Condition& condition, absl::Time deadline) override {
    return clock_.AwaitUntil(mu, condition, deadline - absl::Nanoseconds(step_.load()));
  }

 private:
  Clock& clock_;
  std::atomic<int64_t> step_ = 0;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FAKE_CLOCK_H_
