// Configuration of the decoders: video VAE, audio VAE, vocoder. Part of model_config.h.
#ifndef KINORA_ENGINE_CONFIG_DECODER_CONFIG_H_
#define KINORA_ENGINE_CONFIG_DECODER_CONFIG_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/config/diffusion_decoder_config.h"

namespace kinora {

// One block of the video decoder, in execution order. The block with index i has the tensors up_blocks.i.
struct VideoDecoderBlock {
  enum class Kind { kResidual, kUpsample } kind = Kind::kResidual;
  int64_t in_channels = 0;
  int64_t out_channels = 0;                   // kResidual: the same
  int64_t layers = 0;                         // kResidual: number of resnets
  std::array<int64_t, 3> stride = {1, 1, 1};  // kUpsample: time, height, width; 1 or 2 each
  bool residual = false;                      // kUpsample: adds depth-to-space of the input

  // Output channels of an upsampling block's convolution, before depth-to-space.
  int64_t conv_channels() const { return out_channels * stride[0] * stride[1] * stride[2]; }
  friend bool operator==(const VideoDecoderBlock&, const VideoDecoderBlock&) = default;
};

enum class SpatialPadding { kZeros, kReflect };

// A convolution decoder, or, if `diffusion` is present, a diffusion decoder.
struct VideoDecoderConfig {
  int64_t latent_channels = 128;
  int64_t out_channels = 3;
  int64_t patch_size = 4;  // space only
  std::optional<DiffusionDecoderConfig> diffusion{};

  // The rest describes the convolution decoder alone.
  SpatialPadding padding = SpatialPadding::kReflect;
  bool causal = false;
  std::vector<VideoDecoderBlock> blocks{};

  bool absent() const { return blocks.empty() && !diffusion.has_value(); }                 // the model has no video VAE
  int64_t first_width() const { return blocks.empty() ? 0 : blocks.front().in_channels; }  // out-channels of conv_in
  int64_t last_width() const { return blocks.empty() ? 0 : blocks.back().out_channels; }   // in-channels of conv_out
  int64_t conv_out_channels() const { return out_channels * patch_size * patch_size; }
  int64_t time_factor() const;   // frames = time_factor · (latent frames − 1) + 1
  int64_t space_factor() const;  // pixels = space_factor · latent cells
  int64_t smallest_latent_side() const { return !diffusion && padding == SpatialPadding::kReflect ? 2 : 1; }  // cells
  friend bool operator==(const VideoDecoderConfig&, const VideoDecoderConfig&) = default;
};

struct AudioDecoderConfig {
  int64_t channels = 128;                        // "ch"
  std::vector<int64_t> multipliers = {1, 2, 4};  // "ch_mult", lowest level first
  int64_t resnets = 2;                           // per level; the decoder has one more
  int64_t latent_channels = 8;                   // "z_channels"
  int64_t out_channels = 2;
  int64_t mel_bins = 64;
  int64_t sample_rate = 16000;
  int64_t hop_length = 160;
  bool causal = true;

  int64_t factor() const { return int64_t{1} << (multipliers.size() - 1); }  // mel rows and bins per latent cell
  int64_t latent_bins() const { return mel_bins / factor(); }
  int64_t packed_width() const { return latent_channels * latent_bins(); }  // per_channel_statistics entries
  friend bool operator==(const AudioDecoderConfig&, const AudioDecoderConfig&) = default;
};

struct GeneratorConfig {  // one HiFi-GAN / BigVGAN generator
  enum class Activation { kLeakyRelu, kSnake, kSnakeBeta } activation = Activation::kLeakyRelu;
  enum class Final { kNone, kTanh, kClamp } final_activation = Final::kTanh;
  int64_t in_channels = 128;  // 2 · mel bins
  int64_t hidden_channels = 1024;
  int64_t out_channels = 2;
  std::vector<int64_t> upsample_rates = {6, 5, 2, 2, 2};
  std::vector<int64_t> upsample_kernels = {16, 15, 8, 4, 4};
  std::vector<int64_t> resblock_kernels = {3, 7, 11};
  std::vector<std::vector<int64_t>> resblock_dilations = {{1, 3, 5}, {1, 3, 5}, {1, 3, 5}};
  bool final_bias = true;
  double leaky_slope = 0.1;  // except before conv_post, where it is 0.01

  bool anti_aliased() const { return activation != Activation::kLeakyRelu; }
  int64_t stage_channels(int64_t stage) const { return hidden_channels >> (stage + 1); }  // after upsampling `stage`
  friend bool operator==(const GeneratorConfig&, const GeneratorConfig&) = default;
};

struct BandwidthExtensionConfig {
  GeneratorConfig generator;
  int64_t n_fft = 512;
  int64_t hop_length = 80;
  int64_t mel_bins = 64;
  friend bool operator==(const BandwidthExtensionConfig&, const BandwidthExtensionConfig&) = default;
};

struct VocoderConfig {
  GeneratorConfig base;
  std::optional<BandwidthExtensionConfig> extension;  // 2.3
  int64_t base_rate = 24000;                          // samples per second of `base`
  int64_t output_rate = 24000;                        // of the waveform; equals base_rate without extension
  friend bool operator==(const VocoderConfig&, const VocoderConfig&) = default;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_DECODER_CONFIG_H_
