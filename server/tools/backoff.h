// The pauses between attempts at a call that broke, each a little longer or shorter than twice the last: clients that
// one server has left do not come back together.
#ifndef KINORA_SERVER_TOOLS_BACKOFF_H_
#define KINORA_SERVER_TOOLS_BACKOFF_H_

#include <algorithm>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/tools/halt.h"

namespace kinora {

class Backoff {
 public:
  Backoff(absl::Duration limit, Halt& halt) : limit_(limit), halt_(halt) {}
  void Reset(absl::Time last_byte) {  // it went on until then
    away_since_ = last_byte;
    pause_ = kFirstPause;
  }
  // false: the time since the last byte is over, or it is a halt.
  bool Pause() {
    const absl::Time now = absl::Now();
    if (now - away_since_ >= limit_) return false;
    const absl::Duration pause = std::min(pause_ * absl::Uniform(random_, 0.75, 1.25), away_since_ + limit_ - now);
    pause_ = std::min(pause_ * 2, kLongestPause);
    return halt_.Pause(pause);
  }

 private:
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(250), kLongestPause = absl::Seconds(4);

  const absl::Duration limit_;
  Halt& halt_;
  absl::BitGen random_;
  absl::Time away_since_ = absl::Now();
  absl::Duration pause_ = kFirstPause;
};

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_BACKOFF_H_
