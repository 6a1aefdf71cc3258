// Configuration of the two VAEs' encoders. Part of model_config.h.
#ifndef KINORA_ENGINE_CONFIG_ENCODER_CONFIG_H_
#define KINORA_ENGINE_CONFIG_ENCODER_CONFIG_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/decoder_config.h"

namespace kinora {

// One block of the video encoder, in execution order. The block with index i has the tensors down_blocks.i.
struct VideoEncoderBlock {
  enum class Kind { kResidual, kDownsample } kind = Kind::kResidual;
  int64_t in_channels = 0;
  int64_t out_channels = 0;                   // kResidual: the same
  int64_t layers = 0;                         // kResidual: number of resnets; may be 0
  std::array<int64_t, 3> stride = {1, 1, 1};  // kDownsample: time, height, width; 1 or 2 each

  int64_t parts() const { return stride[0] * stride[1] * stride[2]; }
  int64_t conv_channels() const { return out_channels / parts(); }  // of a downsampling block's convolution
  // Number of channels that a downsampling block's skip connection averages.
  int64_t mean_of() const { return in_channels * parts() / out_channels; }
  friend bool operator==(const VideoEncoderBlock&, const VideoEncoderBlock&) = default;
};

struct VideoEncoderConfig {
  // The reason why the model has no usable encoder: it is missing or not supported. Empty: the encoder is usable. The
  // decoder does not depend on it.
  std::string unavailable = "vae.encoder_blocks: missing";
  int64_t in_channels = 3;
  int64_t latent_channels = 128;
  int64_t base_channels = 128;  // of conv_in's output
  int64_t patch_size = 4;       // space only
  SpatialPadding padding = SpatialPadding::kZeros;
  int64_t variance_channels = 1;  // of conv_out, after the means; never computed
  std::vector<VideoEncoderBlock> blocks;

  int64_t patch_channels() const { return in_channels * patch_size * patch_size; }
  int64_t last_width() const { return blocks.empty() ? base_channels : blocks.back().out_channels; }
  int64_t time_factor() const;   // frames = time_factor · (latent frames − 1) + 1
  int64_t space_factor() const;  // pixels = space_factor · latent cells
  friend bool operator==(const VideoEncoderConfig&, const VideoEncoderConfig&) = default;
};

struct AudioEncoderConfig {
  std::string unavailable = "audio_vae: missing";  // as in VideoEncoderConfig
  AudioDecoderConfig vae;                          // the values that encoder and decoder share
  int64_t in_channels = 2;
  int64_t n_fft = 1024;  // of the log-mel rows that it reads

  friend bool operator==(const AudioEncoderConfig&, const AudioEncoderConfig&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_ENCODER_CONFIG_H_
