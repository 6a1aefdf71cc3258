#include "engine/base/clock.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"

namespace kinora {
namespace {

class RealClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  bool AwaitUntil(absl::Mutex& mu, const absl::Condition& condition, absl::Time deadline) override {
    return mu.AwaitWithDeadline(condition, deadline);
  }
};

// absl::Mutex times its waits by the date. Those who wait here are woken by a thread that waits by the steady clock.
class SteadyClock : public Clock {
 public:
  SteadyClock() {
    std::thread([this] { Ring(); }).detach();
  }

  absl::Time Now() const override {
    return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  bool AwaitUntil(absl::Mutex& mu, const absl::Condition& condition,
                  absl::Time deadline) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto over = [&] { return condition.Eval() || Now() >= deadline; };
    while (!over()) {
      Waiter self{.mu = mu, .deadline = deadline};
      Add(self);
      mu.Await(absl::Condition(&over));
      Remove(self);  // may have let go of `mu`
    }
    return condition.Eval();
  }

 private:
  struct Waiter {
    absl::Mutex& mu;
    const absl::Time deadline;
    bool rung = false;  // being woken
  };
  using Key = std::pair<absl::Time, Waiter*>;

  void Add(Waiter& waiter) {
    const std::lock_guard lock(mu_);
    waiters_.insert({waiter.deadline, &waiter});
    if (waiters_.begin()->second == &waiter) changed_.notify_all();
  }

  // A waiter and its mutex may go once nobody is about to wake it, for which `waiter.mu` is needed: locks are taken in
  // the order waiter.mu, mu_.
  void Remove(Waiter& waiter) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mu_);
    waiters_.erase({waiter.deadline, &waiter});
    if (!waiter.rung) return;
    waiter.mu.Unlock();
    while (waiter.rung) changed_.wait(lock);
    lock.unlock();
    waiter.mu.Lock();
  }

  void Ring() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    constexpr absl::Duration kLongest = absl::Hours(1);  // so that no deadline is too far for a time_point
    std::unique_lock lock(mu_);
    while (true) {
      const absl::Duration left = waiters_.empty() ? kLongest : waiters_.begin()->first - Now();
      if (left > absl::ZeroDuration()) {
        changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, kLongest)));
        continue;
      }
      Waiter& waiter = *waiters_.begin()->second;
      waiters_.erase(waiters_.begin());
      waiter.rung = true;
      lock.unlock();
      waiter.mu.Lock();  // an unlock is what makes absl::Mutex look at its waiters' conditions again
      waiter.mu.Unlock();
      lock.lock();
      waiter.rung = false;
      changed_.notify_all();
    }
  }

  std::mutex mu_;                    // of the standard library, whose condition variable waits by the steady clock
  std::condition_variable changed_;  // another first waiter, or one has been woken
  std::set<Key> waiters_;            // guarded by mu_, as is Waiter::rung
};

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

Clock& Clock::Steady() {
  static auto* const clock = new SteadyClock;  // its thread has no end
  return *clock;
}

}  // namespace kinora
