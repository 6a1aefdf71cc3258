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
  // Waits on `mu` (held) until `condition` holds or `deadline` passes on this clock; true if the condition holds.
  virtual bool AwaitUntil(absl::Mutex& mu, const absl::Condition& condition, absl::Time deadline) = 0;

  // The date. It steps when somebody sets it, and what waits for a time by it wakes early or late.
  static Clock& Real();
  // Counts evenly whatever happens to the date, also while this process is stopped: for every span of time. Its times
  // mean something among themselves alone. Not in a child of fork: the thread that wakes those who wait stays behind.
  static Clock& Steady();
};

// The two that a server needs; a test gives it one of its own for both, or moves one alone.
struct Clocks {
  Clock& date = Clock::Real();
  Clock& steady = Clock::Steady();
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CLOCK_H_
