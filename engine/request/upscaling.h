// What stands between the two stages of a recipe: the latent upsampler that a request names.
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

  // Of the stage before it, whose result becomes `clip`.
  ClipSize Before(const ClipSize& clip) const {
    return {.num_frames = (clip.num_frames - 1) / time + 1,
            .height = clip.height * space_down / space_up,
            .width = clip.width * space_down / space_up};
  }
  // What sides and frames less one of the whole clip are multiples of, where those of one stage are of `multiple`.
  int64_t SizeMultiple(int64_t multiple) const { return multiple * space_up; }
  int64_t FrameMultiple(int64_t multiple) const { return multiple * time; }
};

// "": of one stage, which changes nothing. Null: no such name.
const Upscaling* FindUpscaling(std::string_view name);
// "x2, x1.5, temporal_x2".
inline constexpr std::string_view kUpscalings = "x2, x1.5, temporal_x2";

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_UPSCALING_H_
