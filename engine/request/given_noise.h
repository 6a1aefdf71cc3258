// Noise that replaces a run's random draws (`kinora-render --noise`), by the names of the draws.
#ifndef KINORA_ENGINE_REQUEST_GIVEN_NOISE_H_
#define KINORA_ENGINE_REQUEST_GIVEN_NOISE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kinora {

struct HostArray {  // float32, row-major
  std::vector<int64_t> shape;
  std::vector<float> values;
  bool operator==(const HostArray&) const = default;
};

// One draw of a run, or all draws of a sampler in a stage. C: channels of the video latent. F', H', W': its frames,
// height and width in that stage. n: appended tokens. T': frames of the audio latent. draws: steps of the sampler.
//
//   video_noise [1, C, F', H', W']   video_noise_appended [1, n, C]   audio_noise [1, 8, T', 16]
//
//   decoder_noise [1, colours, frames, height, width]
//
// decoder_noise: of a decoder that draws noise, for the picture that it makes, which is larger than a small clip. In
// several tiles: decoder_noise_tile0, decoder_noise_tile1, …, in the plan's order.
//
// The suffix `_substep` or `_step` names the noise that a stochastic sampler adds in the middle or at the end of its
// steps; its first dimension is draws instead of 1. A final `_stage2` means the second stage.
struct NoiseDraw {
  enum class Use : uint8_t { kBegin, kSubstep, kStep };
  bool video = true, appended = false;
  Use use = Use::kBegin;
  int stage = 1;  // 1 or 2
};
std::string NoiseName(const NoiseDraw& draw);
// The names of all draws that the denoising stages of a run may make.
std::vector<std::string> NoiseNames();
// The name of the decoder's draw `draw` of `draws`.
std::string DecoderNoiseName(int64_t draw, int64_t draws);
bool IsDecoderNoiseName(std::string_view name);
// Whether `name` is a draw's: one of NoiseNames, the decoder's, or of a draw that no recipe of this build makes.
bool IsNoiseName(std::string_view name);

struct GivenNoise {
  std::map<std::string, HostArray, std::less<>> draws;  // standard normal; ignored if the run does not make the draw
  const HostArray* Find(std::string_view name) const {
    const auto found = draws.find(name);
    return found == draws.end() ? nullptr : &found->second;
  }
  bool operator==(const GivenNoise&) const = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_GIVEN_NOISE_H_
