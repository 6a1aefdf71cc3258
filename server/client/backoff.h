// Pauses between attempts at a broken call. Each doubles the last one, with random jitter, so that the clients of a
// stopped server do not all return at once.
#ifndef KINORA_SERVER_CLIENT_BACKOFF_H_
#define KINORA_SERVER_CLIENT_BACKOFF_H_

#include <algorithm>

#include "absl/random/random.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/growing_pause.h"
#include "server/client/halt.h"

namespace kinora {

class Backoff {
 public:
  Backoff(absl::Duration limit, Halt& halt, const Clock& steady = Clock::Steady())
      : limit_(limit), halt_(halt), steady_(steady) {}
  void Reset(absl::Time last_byte) {  // data arrived until `last_byte`
    away_since_ = last_byte;
    pause_.Reset();
  }
  // Waits before the next attempt. Returns false if `limit` has passed since the last byte, or after a halt.
  bool Pause() {
    const absl::Time now = steady_.Now();
    if (now - away_since_ >= limit_) return false;
    const absl::Duration pause =
        std::min(pause_.Next() * absl::Uniform(random_, 0.75, 1.25), away_since_ + limit_ - now);
    return halt_.Pause(pause);
  }

 private:
  const absl::Duration limit_;
  Halt& halt_;
  const Clock& steady_;
  absl::BitGen random_;
  absl::Time away_since_ = steady_.Now();
  GrowingPause pause_{absl::Milliseconds(250), absl::Seconds(4)};
};

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_BACKOFF_H_
