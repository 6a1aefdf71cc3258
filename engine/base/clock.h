// Time as a dependency: production code takes a Clock&, tests pass a FakeClock (tests/testing/fake_clock.h).
#ifndef KINORA_ENGINE_BASE_CLOCK_H_
#define KINORA_ENGINE_BASE_CLOCK_H_

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kinora {

class Clock {  // thread-safe
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  // Waits until `condition` holds or `deadline` passes on this clock; returns whether the condition holds. `mu`: held
  // by the caller.
  virtual bool AwaitUntil(absl::Mutex& mu, const absl::Condition& condition, absl::Time deadline) = 0;

  // The wall clock. It jumps when it is set, so a wait for one of its times may end early or late.
  static Clock& Real();
  // Monotonic, for every span of time: unaffected by changes of the date, and also counts while this process is
  // stopped. Its times are comparable only with each other. AwaitUntil does not work in the child of a process that has
  // waited before fork, because the thread that wakes the waiters stays behind.
  static Clock& Steady();
};

// The two clocks of a server. A test passes one fake clock for both or moves one alone.
struct Clocks {
  Clock& date = Clock::Real();
  Clock& steady = Clock::Steady();
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CLOCK_H_
