// A clock that does not count time in which this process did not run (SIGSTOP, a suspended machine, no CPU). Use it to
// decide whether a peer is silent: what the peer sent in that time still waits to be read.
#ifndef KINORA_SERVER_COMMON_ATTENDED_TIME_H_
#define KINORA_SERVER_COMMON_ATTENDED_TIME_H_

#include <algorithm>

#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

class AttendedTime {
 public:
  // The caller must call Now at least once per `tick` while something is timed. A gap between two calls counts as at
  // most 2·tick. `steady` is not owned.
  AttendedTime(Clock& steady, absl::Duration tick) : steady_(steady), longest_gap_(2 * tick), last_(steady.Now()) {}

  // Returned times can only be compared with one another. One thread at a time.
  absl::Time Now() {
    const absl::Time now = steady_.Now();
    attended_ += std::min(now - last_, longest_gap_);
    last_ = now;
    return attended_;
  }

 private:
  Clock& steady_;
  const absl::Duration longest_gap_;
  absl::Time last_, attended_ = absl::UnixEpoch();
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_ATTENDED_TIME_H_
