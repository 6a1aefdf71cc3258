#include "engine/request/given_noise.h"

#include <algorithm>

#include "engine/base/strings.h"

namespace kinora {
namespace {

constexpr std::string_view kDecoderNoise = "decoder_noise", kTile = "_tile";

}  // namespace

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

std::string DecoderNoiseName(int64_t draw, int64_t draws) {
  return draws == 1 ? std::string(kDecoderNoise) : Cat(kDecoderNoise, kTile, draw);
}

bool IsDecoderNoiseName(std::string_view name) {
  if (name == kDecoderNoise) return true;
  if (!name.starts_with(kDecoderNoise)) return false;
  name.remove_prefix(kDecoderNoise.size());
  if (!name.starts_with(kTile)) return false;
  name.remove_prefix(kTile.size());
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsNoiseName(std::string_view name) {
  return name.starts_with("video_noise") || name.starts_with("audio_noise") || name.starts_with(kDecoderNoise);
}

}  // namespace kinora
