// The latent upsampler of LTX-2 (ltx_core/model/upsampler/model.py). Turns a video latent into one with more cells or
// frames. Activations are [frames, height, width, channels]. Convolutions have 3 taps per axis and pad with zeros.
// Norms are group norms over the whole clip, or over each frame in an upsampler without convolutions over time.
//
//   h = SiLU(norm(conv(z · σ_c + μ_c)))
//   `blocks` times   h = SiLU(h + norm2(conv2(SiLU(norm1(conv1(h))))))
//   h = depth_to_space(conv(h)); a factor of 2 in time drops frame 0; ×1.5 then filters and takes every second cell
//   `blocks` times   as above
//   out = (conv(h) − μ_c) / σ_c
//
// A run needs memory for three activations of the largest size.
#ifndef KINORA_ENGINE_MODEL_LATENT_UPSAMPLER_H_
#define KINORA_ENGINE_MODEL_LATENT_UPSAMPLER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/config/upsampler_config.h"
#include "engine/model/latent_normalizer.h"
#include "engine/model/video_blocks.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class LatentUpsampler {
 public:
  // weights: at the component spatial_upsampler or temporal_upsampler. vae: at the component "vae", whose
  // per_channel_statistics are read. WeightLoader::Finish reports missing tensors, and statistics with another number
  // of channels.
  static absl::StatusOr<LatentUpsampler> Load(WeightLoader weights, const WeightLoader& vae,
                                              const UpsamplerConfig& config);

  // latent: [frames, height, width, latent_channels] f32, normalised   out: config().OutputShape, f32, normalised; must
  // not overlap. exec.dtype: of the activations. Temporaries come from exec.arena.
  // Taps: "denormalised", "initial", "res_blocks.i", "upsampled", "post_upsample_res_blocks.i".
  void Forward(Exec& exec, const Tensor& latent, Tensor out) const;

  const UpsamplerConfig& config() const { return config_; }

 private:
  struct Norm {
    Parameter weight, bias;  // [mid_channels]
  };
  struct ResNet {
    Weight conv1, conv2;
    Norm norm1, norm2;
  };

  LatentUpsampler() = default;
  absl::StatusOr<Weight> LoadConv(WeightLoader& weights, std::string_view name, int64_t in, int64_t out) const;
  absl::StatusOr<Norm> LoadNorm(WeightLoader& weights, std::string_view name) const;
  absl::StatusOr<std::vector<ResNet>> LoadBlocks(WeightLoader& weights, std::string_view name) const;
  absl::Status LoadUpsampling(WeightLoader weights);

  bool upsampling_over_time() const { return config_.time_up > 1; }
  void Conv(Exec& exec, const Tensor& x, const Weight& conv, bool over_time, Tensor out) const;
  GroupNormParams ParamsOf(const Norm& norm, const Shape& x) const;
  void RunBlock(Exec& exec, const ResNet& block, VideoScratch& s) const;
  void RunBlocks(Exec& exec, const std::vector<ResNet>& blocks, std::string_view name, VideoScratch& s) const;
  void Upsample(Exec& exec, VideoScratch& s) const;
  int64_t LargestActivation(const Shape& latent) const;  // in elements

  UpsamplerConfig config_;
  Parameter mean_, std_;  // [latent_channels]
  LatentNormalizer normalizer_;
  Weight initial_conv_, upsampling_, final_conv_;
  Parameter filter_;  // [1, 1, 5, 5]; only if space_down > 1
  Norm initial_norm_;
  std::vector<ResNet> before_, after_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_LATENT_UPSAMPLER_H_
