// The video VAE encoder of LTX-2.0 and 2.3 (ltx_core/model/video_vae/video_vae.py, VideoEncoder). Turns pixels into the
// transformer's normalised latent, the mean of the distribution. Causal in time: a latent frame depends on no later
// pixels. All activations are [frames, height, width, channels].
//
//   h = conv_in(patchify(pixels))
//   per block of the config, in execution order:
//     residual:   layers times   h += conv2(SiLU(norm(conv1(SiLU(norm(h))))))   norm(x) = x / sqrt(mean_c x² + 1e-8)
//     downsample: h = space_to_depth(conv(h)) + means of space_to_depth(h); a stride of 2 in time repeats frame 0 first
//   z = (conv_out(SiLU(norm(h))) − μ_c) / σ_c      conv_out: only the channels of the mean
//
// A run needs memory for three activations of the largest size.
#ifndef KINORA_ENGINE_MODEL_VIDEO_ENCODER_H_
#define KINORA_ENGINE_MODEL_VIDEO_ENCODER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/config/model_config.h"
#include "engine/model/causal_conv.h"
#include "engine/model/latent_normalizer.h"
#include "engine/model/video_blocks.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class VideoEncoder {
 public:
  // Reads encoder.* and per_channel_statistics.{mean,std}-of-means under `weights` (component "vae"). Fails with
  // Unimplemented, with the text of config.unavailable, if that is set. WeightLoader::Finish reports missing tensors.
  static absl::StatusOr<VideoEncoder> Load(const WeightLoader& weights, const VideoEncoderConfig& config);

  // pixels: [frames, height, width, in_channels]. Fails with InvalidArgument, naming num_frames (not a multiple of the
  // time factor, plus 1), or width or height (not a multiple of the space factor, or too small to be padded).
  absl::Status CheckPixels(const Shape& pixels) const;
  // [(frames − 1) / time_factor + 1, height / space_factor, width / space_factor, latent_channels]
  Shape OutputShape(const Shape& pixels) const;

  // pixels: must pass CheckPixels, f32 in [−1, 1]   latent: OutputShape(pixels) f32, normalised; must not overlap.
  // exec.dtype: of the activations. Temporaries come from exec.arena. Taps: "conv_in", "down_blocks.i".
  void Forward(Exec& exec, const Tensor& pixels, Tensor latent) const;

  const VideoEncoderConfig& config() const { return config_; }

 private:
  struct Block {
    std::vector<VideoResNet> resnets;  // kResidual
    CausalConv conv;                   // kDownsample
  };

  VideoEncoder() = default;
  absl::StatusOr<Block> LoadBlock(WeightLoader& weights, int64_t index) const;
  void RunDownsample(Exec& exec, const VideoEncoderBlock& config, const Block& block, VideoScratch& scratch) const;
  int64_t LargestActivation(const Shape& pixels) const;  // in elements

  VideoEncoderConfig config_;
  LatentNormalizer normalizer_;
  CausalConv conv_in_, conv_out_;
  std::vector<Block> blocks_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_VIDEO_ENCODER_H_
