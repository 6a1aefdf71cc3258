#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/request/defaults.h"
#include "engine/request/rules.h"

namespace kinora {
namespace {

constexpr double kMostFrames = 1e6;  // of a recipe without a limit

}  // namespace

void Rules::CheckAutoLength(const AutoLength& length) {
  if (model_ != nullptr && !model_->parts.duration_head) {
    Add("auto_length",
        "this model was loaded without a duration head, which chooses lengths (--model duration_head=FILE, or "
        "--worker-model in a frontend, adds it); set num_frames instead");
  }
  if (request_.num_frames != 0) Add("auto_length", "cannot be combined with num_frames; omit one of them");
  if (request_.retake.has_value()) Add("auto_length", "cannot be combined with retake, which sets num_frames; omit it");
  if (request_.audio.has_value()) Add("auto_length", "cannot be combined with audio, which sets the length; omit it");
  const double rate = request_.frame_rate;
  const bool limited = recipe_ != nullptr && rate >= kMinFrameRate && rate <= kMaxFrameRate;
  const double most = !limited ? kAnyNumber : (recipe_->max_frames > 0 ? recipe_->max_frames : kMostFrames) / rate;
  const double shortest = length.min_seconds.value_or(0), longest = length.max_seconds.value_or(most);
  CheckNumber("auto_length.min_seconds", shortest, 0, most);
  if (!(shortest >= 0 && shortest <= most)) return;
  CheckNumber("auto_length.max_seconds", longest, shortest, most);
  if (limited && longest >= shortest && longest <= most) CheckLengths();
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
  if (!request_.audio_only && request_.width > 0 && request_.height > 0) CheckTokens(longest);
}

}  // namespace kinora
