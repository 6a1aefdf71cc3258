#include "engine/request/auto_length.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace kinora {

int64_t FramesFromSeconds(double seconds, const LengthLimits& limits) {
  KINORA_CHECK(std::isfinite(seconds)) << seconds;
  const double least = std::nearbyint(limits.min_seconds * limits.frame_rate);  // half to even
  const double most = std::nearbyint(limits.max_seconds * limits.frame_rate);
  const double wanted = std::max(least, std::min(std::nearbyint(seconds * limits.frame_rate), most));
  const int64_t factor = limits.time_factor;
  const int64_t frames = (std::max<int64_t>(1, static_cast<int64_t>(wanted)) - 1) / factor * factor + 1;
  const auto min_frames = static_cast<int64_t>(least), max_frames = static_cast<int64_t>(most);
  if (frames >= min_frames) return frames;
  return std::min((min_frames - 1 + factor - 1) / factor * factor + 1, max_frames);
}

}  // namespace kinora
