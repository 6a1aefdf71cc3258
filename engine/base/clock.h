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

  static Clock& Real();
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_CLOCK_H_
