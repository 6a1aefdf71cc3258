// The convolutional video VAE decoder of LTX-2.0 and 2.3 (ltx_core/model/video_vae/conv_video_decoder.py). Turns the
// transformer's normalised latent into pixels. All activations are [frames, height, width, channels].
//
//   h = conv_in(z · σ_c + μ_c)
//   per block of the config, in execution order:
//     residual: layers times   h += conv2(SiLU(norm(conv1(SiLU(norm(h))))))     norm(x) = x / sqrt(mean_c x² + 1e-8)
//     upsample: h = depth_to_space(conv(h)) [+ depth_to_space(h), channels repeated]
//               a stride of 2 in time drops frame 0
//   pixels = unpatchify(conv_out(SiLU(norm(h))))
//
// The output channels of upsampling convolutions are loaded in the order (t, h, w, c), so that depth-to-space moves
// contiguous runs of c. A run needs memory for three activations of the largest size.
#ifndef KINORA_ENGINE_MODEL_VIDEO_DECODER_H_
#define KINORA_ENGINE_MODEL_VIDEO_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/config/model_config.h"
#include "engine/model/causal_conv.h"
#include "engine/model/video_blocks.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class VideoDecoder {
 public:
  // Reads decoder.* and per_channel_statistics.{mean,std}-of-means under `weights` (component "vae"). Fails with
  // InvalidArgument, naming the entry of the block list, if widths do not fit together, and with Unimplemented, naming
  // `timestep_conditioning` or `inject_noise`, if the file holds tensors of these variants. WeightLoader::Finish
  // reports missing tensors.
  static absl::StatusOr<VideoDecoder> Load(WeightLoader weights, const VideoDecoderConfig& config);

  // latent: [frames, height, width, latent_channels] f32, normalised. Fails with InvalidArgument, naming `width` or
  // `height`, if a side is too small to be padded by reflection.
  absl::Status CheckLatent(const Shape& latent) const;
  // [time_factor·(frames − 1) + 1, space_factor·height, space_factor·width, 3]
  Shape OutputShape(const Shape& latent) const;

  // latent: must pass CheckLatent   out: OutputShape(latent) f32, nominally in [-1, 1]; overshoots are not clamped.
  // exec.dtype: of the activations. Temporaries come from exec.arena. Taps: "denormalised", "conv_in", "up_blocks.i".
  void Forward(Exec& exec, const Tensor& latent, Tensor out) const;

  const VideoDecoderConfig& config() const { return config_; }

 private:
  struct Block {
    std::vector<VideoResNet> resnets;  // kResidual
    CausalConv conv;                   // kUpsample
  };

  static absl::Status CheckConfig(const VideoDecoderConfig& config);
  absl::StatusOr<Block> LoadBlock(WeightLoader& weights, int64_t index) const;
  void RunUpsample(Exec& exec, const VideoDecoderBlock& config, const Block& block, VideoScratch& scratch) const;
  int64_t LargestActivation(const Shape& latent) const;  // in elements

  VideoDecoderConfig config_;
  Parameter mean_, std_;  // [latent_channels]
  CausalConv conv_in_, conv_out_;
  std::vector<Block> blocks_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_VIDEO_DECODER_H_
