// The latent upsampler between the two stages of a recipe, which a request names.
#ifndef KINORA_ENGINE_REQUEST_UPSCALING_H_
#define KINORA_ENGINE_REQUEST_UPSCALING_H_

#include <cstdint>
#include <string_view>

namespace kinora {

struct ClipSize {
  int64_t num_frames = 0, height = 0, width = 0;
};

struct Upscaling {
  std::string_view name;  // "x2"
  int64_t space_up = 1, space_down = 1;
  int64_t time = 1;  // 2: f frames of half the rate become 2f − 1

  // Returns the size of the stage before the upsampler, whose result becomes `clip`.
  ClipSize Before(const ClipSize& clip) const {
    return {.num_frames = (clip.num_frames - 1) / time + 1,
            .height = clip.height * space_down / space_up,
            .width = clip.width * space_down / space_up};
  }
  // The multiples that the sides of the whole clip, and its frames less one, must have if those of one stage are
  // multiples of `multiple`.
  int64_t SizeMultiple(int64_t multiple) const { return multiple * space_up; }
  int64_t FrameMultiple(int64_t multiple) const { return multiple * time; }
};

// Returns null if there is no upsampler of that name. "" is that of one stage, which changes nothing.
const Upscaling* FindUpscaling(std::string_view name);
// All names, for messages.
inline constexpr std::string_view kUpscalings = "x2, x1.5, temporal_x2";

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_UPSCALING_H_
