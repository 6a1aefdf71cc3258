// Time as this process has lived it. Whoever judges that others are silent must not count what passed while it was
// stopped itself (SIGSTOP, a paused machine, no processor): what they said then waits to be read.
#ifndef KINORA_SERVER_COMMON_ATTENDED_TIME_H_
#define KINORA_SERVER_COMMON_ATTENDED_TIME_H_

#include <algorithm>

#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

class AttendedTime {
 public:
  // `tick`: how often Now is called at least while something is judged. Of a longer gap between two calls 2·tick count.
  // `steady` is not owned.
  AttendedTime(Clock& steady, absl::Duration tick) : steady_(steady), longest_gap_(2 * tick), last_(steady.Now()) {}

  // Times mean something among themselves alone. One thread at a time.
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
