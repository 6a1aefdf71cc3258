// Lets one record per interval into the log and counts the others, so that what fails every second does not fill it.
//   if (const int64_t times = throttle_.Count(now)) Log(…, {{"times", times}});
#ifndef KINORA_SERVER_COMMON_LOG_THROTTLE_H_
#define KINORA_SERVER_COMMON_LOG_THROTTLE_H_

#include <cstdint>
#include <utility>

#include "absl/time/time.h"

namespace kinora {

class LogThrottle {  // one thread at a time
 public:
  explicit LogThrottle(absl::Duration interval = absl::Minutes(1)) : interval_(interval) {}

  // Counts one more. How many the line that is due now stands for, this one included; 0: no line is due.
  int64_t Count(absl::Time now) {
    ++counted_;
    if (now >= last_ && now - last_ < interval_) return 0;
    last_ = now;
    return std::exchange(counted_, 0);
  }

 private:
  const absl::Duration interval_;
  absl::Time last_ = absl::InfinitePast();
  int64_t counted_ = 0;  // since the last line
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_LOG_THROTTLE_H_
