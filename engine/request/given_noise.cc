#include "engine/request/given_noise.h"

#include "engine/base/strings.h"

namespace kinora {

std::string NoiseName(const NoiseDraw& draw) {
  constexpr std::string_view kUses[] = {"", "_substep", "_step"};
  return Cat(draw.video ? "video_noise" : "audio_noise", draw.appended ? "_appended" : "",
             kUses[static_cast<int>(draw.use)], draw.stage == 2 ? "_stage2" : "");
}

std::vector<std::string> NoiseNames() {
  using Use = NoiseDraw::Use;
  std::vector<std::string> names;
  for (const int stage : {1, 2}) {
    for (const Use use : {Use::kBegin, Use::kSubstep, Use::kStep}) {
      names.push_back(NoiseName({.use = use, .stage = stage}));
      names.push_back(NoiseName({.appended = true, .use = use, .stage = stage}));
      names.push_back(NoiseName({.video = false, .use = use, .stage = stage}));
    }
  }
  return names;
}

bool IsNoiseName(std::string_view name) {
  return name.starts_with("video_noise") || name.starts_with("audio_noise") || name.starts_with("decoder_noise");
}

}  // namespace kinora
