// A clip's length that the model chooses from the prompt (GenerationRequest::auto_length).
#ifndef KINORA_ENGINE_REQUEST_AUTO_LENGTH_H_
#define KINORA_ENGINE_REQUEST_AUTO_LENGTH_H_

#include <cstdint>
#include <optional>

namespace kinora {

// The bounds of LTX-2.5 (ltx_pipelines/utils/blocks.py).
inline constexpr double kShortestAutoSeconds = 1, kLongestAutoSeconds = 20;
inline constexpr double kMostAutoSeconds = 1e6;  // of a recipe without a limit; keeps frames within int64_t

struct AutoLength {
  std::optional<double> min_seconds, max_seconds;  // absent: the bounds above, within the recipe's limits
  bool operator==(const AutoLength&) const = default;
};

struct LengthLimits {
  double frame_rate = 24;
  double min_seconds = kShortestAutoSeconds, max_seconds = kLongestAutoSeconds;
  int64_t time_factor = 8;  // a clip has a multiple of it plus one
};
// Returns the frames of a clip of `seconds`, a finite number, on the grid: rounded half to even, clamped to the limits
// (likewise rounded), then down to the grid, or up if that is below the lower limit, but not beyond the upper one. The
// result is off the grid only if the grid has no value between the limits.
int64_t FramesFromSeconds(double seconds, const LengthLimits& limits);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_AUTO_LENGTH_H_
