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

// absl::Mutex times its waits by the date, so a thread that waits by the steady clock wakes the waiters.
class SteadyClock : public Clock {
 public:
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
      Remove(self);  // may release `mu` for a moment
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
    // The thread starts with the first wait, so a process that only reads the time can fork.
    if (!std::exchange(ringing_, true)) std::thread([this] { Ring(); }).detach();
    waiters_.insert({waiter.deadline, &waiter});
    if (waiters_.begin()->second == &waiter) changed_.notify_all();
  }

  // A waiter and its mutex may be destroyed once the thread is no longer about to wake it. Waking locks `waiter.mu`, so
  // the lock order is waiter.mu, mu_.
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
      waiter.mu.Lock();  // unlocking makes absl::Mutex re-evaluate its waiters' conditions
      waiter.mu.Unlock();
      lock.lock();
      waiter.rung = false;
      changed_.notify_all();
    }
  }

  std::mutex mu_;                    // not absl::Mutex, whose waits follow the date
  std::condition_variable changed_;  // the first waiter changed, or a waiter was woken
  std::set<Key> waiters_;            // guarded by mu_, as are ringing_ and Waiter::rung
  bool ringing_ = false;             // the thread has been started
};

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

Clock& Clock::Steady() {
  static auto* const clock = new SteadyClock;  // never destroyed: its thread never ends
  return *clock;
}

}  // namespace kinora
