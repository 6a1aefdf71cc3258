// Pauses between retries: each twice the last, up to a maximum.
#ifndef KINORA_ENGINE_BASE_GROWING_PAUSE_H_
#define KINORA_ENGINE_BASE_GROWING_PAUSE_H_

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace kinora {

class GrowingPause {
 public:
  GrowingPause(absl::Duration first, absl::Duration longest) : first_(first), longest_(longest) {}

  absl::Duration next() const { return next_; }
  absl::Duration Next() { return std::exchange(next_, std::min(next_ * 2, longest_)); }
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_, longest_, next_ = first_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_BASE_GROWING_PAUSE_H_
