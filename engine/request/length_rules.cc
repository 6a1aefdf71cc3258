#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/request/defaults.h"
#include "engine/request/rules.h"

namespace kinora {

void Rules::CheckAutoLength(const AutoLength& length) {
  if (model_ != nullptr && !model_->parts.duration_head) {
    const bool could = model_->family == "ltx-2.5";
    Add("auto_length",
        could ? "this model was loaded without a duration head, which chooses lengths (--model duration_head=FILE, or "
                "--worker-model in a frontend, adds it); set num_frames instead"
              : "only LTX-2.5 chooses lengths, this model does not; set num_frames instead");
  }
  if (request_.num_frames != 0) Add("auto_length", "cannot be combined with num_frames; omit one of them");
  if (request_.retake.has_value()) Add("auto_length", "cannot be combined with retake, which sets num_frames; omit it");
  if (request_.audio.has_value()) Add("auto_length", "cannot be combined with audio, which sets the length; omit it");
  const double shortest = length.min_seconds.value_or(0), longest = length.max_seconds.value_or(shortest);
  const bool least = CheckSeconds("auto_length.min_seconds", shortest, 0);
  const bool most = least && CheckSeconds("auto_length.max_seconds", longest, shortest);
  const bool rated = request_.frame_rate >= kMinFrameRate && request_.frame_rate <= kMaxFrameRate;
  if (most && rated && recipe_ != nullptr) CheckLengths();
}

// Returns whether the seconds are at least `minimum` and, rounded to frames, within the recipe's limit.
bool Rules::CheckSeconds(const std::string& field, double seconds, double minimum) {
  const double rate = request_.frame_rate;
  double maximum = kMostAutoSeconds;
  if (recipe_ != nullptr && recipe_->max_frames > 0 && rate >= kMinFrameRate && rate <= kMaxFrameRate) {
    if (seconds >= minimum && std::nearbyint(seconds * rate) <= recipe_->max_frames) return true;
    maximum = std::floor(1000 * recipe_->max_frames / rate) / 1000;  // as it is printed
  }
  if (std::isfinite(seconds) && seconds >= 0 && seconds < minimum) {
    Add(field, absl::StrCat(seconds, " is less than min_seconds, ", minimum, "; exchange them, or give a larger one"));
  } else {
    CheckNumber(field, seconds, 0, seconds < 0 ? kAnyNumber : maximum);
  }
  return seconds >= minimum && seconds <= maximum;
}

// Checks the lengths that the model can choose. The bounds must be valid.
void Rules::CheckLengths() {
  const LengthLimits limits = LimitsOfLength(*recipe_, request_);
  const int64_t multiple = limits.time_factor;
  const int64_t shortest = FramesFromSeconds(limits.min_seconds, limits);
  const int64_t longest = FramesFromSeconds(limits.max_seconds, limits);
  if ((longest - 1) % multiple != 0) {
    const int64_t next = (longest - 1) / multiple * multiple + multiple + 1;
    return Add("auto_length.max_seconds",
               absl::StrCat("no valid number of frames lies between ", limits.min_seconds, " and ", limits.max_seconds,
                            " s; nearest: ", static_cast<double>(next) / limits.frame_rate));
  }
  for (size_t i = 0; i < request_.conditions.size(); ++i) {
    if (request_.conditions[i].frame < shortest) continue;
    Add(absl::StrCat("conditions[", i, "].frame"),
        absl::StrCat(request_.conditions[i].frame, " is beyond the shortest clip that auto_length allows, of ",
                     shortest, " frames; nearest: ", shortest - 1));
  }
  if (shaped_ && !request_.audio_only) CheckTokens(longest);
}

}  // namespace kinora
