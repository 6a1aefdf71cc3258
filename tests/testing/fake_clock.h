// A clock that moves only when a test says so. Threads that wait in AwaitUntil wake when Advance passes their deadline.
#ifndef KINORA_TESTS_TESTING_FAKE_CLOCK_H_
#define KINORA_TESTS_TESTING_FAKE_CLOCK_H_

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

  // Moves time and wakes every waiter whose deadline it passes. Call it without holding a mutex that a waiter waits on.
  void Advance(absl::Duration by) {
    std::set<absl::Mutex*> waiting;
    {
      absl::MutexLock lock(&mu_);
      now_ += by;
      for (absl::Mutex* mu : waiting_) waiting.insert(mu);
    }
    // An unlock is what makes absl::Mutex look at its waiters' conditions again.
    for (absl::Mutex* mu : waiting) {
      mu->Lock();
      mu->Unlock();
    }
  }

  // `mu` must outlive the clock's use: waiters are remembered for Advance until they leave.
  bool AwaitUntil(absl::Mutex& mu, const absl::Condition& condition,
                  absl::Time deadline) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::multiset<absl::Mutex*>::iterator self;
    {
      absl::MutexLock lock(&mu_);
      self = waiting_.insert(&mu);
      waiters_ += 1;
    }
    auto done = [&] { return condition.Eval() || Now() >= deadline; };
    mu.Await(absl::Condition(&done));
    const bool holds = condition.Eval();
    absl::MutexLock lock(&mu_);
    waiting_.erase(self);
    waiters_ -= 1;
    return holds;
  }

  // Blocks until `count` threads wait in AwaitUntil, so that a test knows that Advance will be seen.
  void AwaitWaiters(int count) {
    auto enough = [&] {
      mu_.AssertHeld();
      return waiters_ >= count;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&enough));
  }

 private:
  mutable absl::Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
  std::multiset<absl::Mutex*> waiting_ ABSL_GUARDED_BY(mu_);
  int waiters_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kinora

#endif  // KINORA_TESTS_TESTING_FAKE_CLOCK_H_
