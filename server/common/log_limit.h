// Rate limit for a kind of log line that clients can cause at will: one line per interval, with the number of
// suppressed lines.
#ifndef KINORA_SERVER_COMMON_LOG_LIMIT_H_
#define KINORA_SERVER_COMMON_LOG_LIMIT_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace kinora {

class LogLimit {  // thread-safe
 public:
  LogLimit(absl::Duration interval, Clock& clock) : interval_(interval), clock_(clock) {}

  // Call before logging a line. Returns how many lines were suppressed since the last one, or nullopt to suppress this
  // line.
  std::optional<int64_t> Admit() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::Time now = clock_.Now();
    absl::MutexLock lock(&mu_);
    if (now < next_ && now >= next_ - interval_) {  // not if the clock was set back
      held_back_ += 1;
      return std::nullopt;
    }
    next_ = now + interval_;
    return std::exchange(held_back_, 0);
  }

 private:
  const absl::Duration interval_;
  Clock& clock_;
  absl::Mutex mu_;
  absl::Time next_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  int64_t held_back_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_LOG_LIMIT_H_
