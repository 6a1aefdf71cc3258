// Configuration of the diffusion video decoder of LTX-2.5. Part of decoder_config.h.
#ifndef KINORA_ENGINE_CONFIG_DIFFUSION_DECODER_CONFIG_H_
#define KINORA_ENGINE_CONFIG_DIFFUSION_DECODER_CONFIG_H_

#include <array>
#include <cstdint>
#include <vector>

namespace kinora {

struct DiffusionDecoderConfig {
  using Extents = std::array<int64_t, 3>;  // time, height, width

  // Blocks of neighbourhood attention of one width.
  struct Stage {
    int64_t width = 0, blocks = 0;
    Extents window{};            // odd extents
    Extents stride = {1, 1, 1};  // of the upsampling after the blocks; 1 or 2 each
    friend bool operator==(const Stage&, const Stage&) = default;
  };

  int64_t head_width = 64;
  // `stages` turn the latent into the context of the denoiser, each with an upsampling at its end; the last one and the
  // denoiser run in tiles.
  std::vector<Stage> stages;
  int64_t context_width = 0;      // of the last upsampling's result
  Stage denoiser;                 // without a stride
  int64_t timestep_width = 384;   // of the timestep's embedding
  double timestep_scale = 1;      // noise levels 0..1 times this are embedded
  int64_t steps = 2;              // noise levels 1, 1 − 1/steps, …, 1/steps
  bool predicts_velocity = true;  // otherwise the denoiser's result is the picture

  // Hidden width of a block's MLP (ltx_core NABlock).
  static int64_t HiddenWidth(int64_t width) { return (4 * width + 15) / 16 * 16; }
  Extents factor() const;          // product of all strides
  Extents SmallestLatent() const;  // below it, windows do not fit some stage, and the latent is padded
  int64_t ghost_frames() const { return stages.front().window[0] / 2 * 2; }  // latent frames appended to the clip
  friend bool operator==(const DiffusionDecoderConfig&, const DiffusionDecoderConfig&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_DIFFUSION_DECODER_CONFIG_H_
