#include "engine/base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace kinora {
namespace {

class Box {  // a condition and its mutex
 public:
  bool AwaitFor(absl::Duration duration) {
    absl::MutexLock lock(&mu_);
    Clock& clock = Clock::Steady();
    return clock.AwaitUntil(mu_, absl::Condition(&set_), clock.Now() + duration);
  }
  void Set() {
    absl::MutexLock lock(&mu_);
    set_ = true;
  }

 private:
  absl::Mutex mu_;
  bool set_ ABSL_GUARDED_BY(mu_) = false;
};

TEST(SteadyClock, NeverGoesBack) {
  absl::Time last = Clock::Steady().Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = Clock::Steady().Now();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(SteadyClock, AWaitEndsWithItsDeadlineAndNotBefore) {
  const absl::Time begin = Clock::Steady().Now();
  EXPECT_FALSE(Box().AwaitFor(absl::Milliseconds(20)));
  EXPECT_GE(Clock::Steady().Now() - begin, absl::Milliseconds(20));
}

TEST(SteadyClock, AWaitEndsWithItsConditionHoweverFarItsDeadline) {
  for (const absl::Duration duration : {absl::Hours(1000), absl::InfiniteDuration()}) {
    Box box;
    std::thread setter([&] { box.Set(); });
    EXPECT_TRUE(box.AwaitFor(duration));
    setter.join();
  }
}

TEST(SteadyClock, ADeadlineThatHasPassedIsNotWaitedFor) {
  Box box;
  EXPECT_FALSE(box.AwaitFor(-absl::Seconds(1)));
  box.Set();
  EXPECT_TRUE(box.AwaitFor(-absl::Seconds(1)));
}

// Conditions and deadlines end waits at the same time, and each mutex is destroyed as soon as its waiter returns.
TEST(SteadyClock, WaitersComeAndGo) {
  constexpr int kThreads = 4, kRounds = 300;
  std::atomic<int> met = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const auto box = std::make_unique<Box>();
        std::thread setter([&] { box->Set(); });
        if (box->AwaitFor(absl::Microseconds(20 * ((i + t) % 10)))) ++met;
        setter.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(met, 0);
}

}  // namespace
}  // namespace kinora
