#include "engine/base/clock.h"

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

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

}  // namespace kinora
