// The audio VAE encoder of all LTX-2 models (ltx_core/model/audio_vae/audio_vae.py, AudioEncoder). Turns log-mel rows
// into the transformer's normalised audio latent, the mean of the distribution. Activations are [1, time, mel,
// channels].
//
//   h = conv_in(mel)
//   per level:
//     resnets times             h = res(h)
//     except in the last level: h = conv(h) with a stride of 2 in time and mel, causal in time
//   h = res(res(h));   z = (pack(conv_out(SiLU(norm(h)))) − μ) / σ      res, norm: audio_blocks.h
#ifndef KINORA_ENGINE_MODEL_AUDIO_ENCODER_H_
#define KINORA_ENGINE_MODEL_AUDIO_ENCODER_H_

#include <optional>
#include <vector>

#include "engine/config/encoder_config.h"
#include "engine/model/audio_blocks.h"
#include "engine/model/latent_normalizer.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class AudioEncoder {
 public:
  // Reads encoder.* and per_channel_statistics.{mean,std}-of-means under `weights` (component "audio_vae"). Fails with
  // Unimplemented, with the text of config.unavailable, if that is set. WeightLoader::Finish reports missing tensors.
  static absl::StatusOr<AudioEncoder> Load(const WeightLoader& weights, const AudioEncoderConfig& config);

  int64_t LatentRows(int64_t mel_rows) const;  // ⌈mel_rows / factor⌉, level by level

  // mel: [in_channels, rows >= 1, mel_bins] f32, natural logarithm   latent: [LatentRows(rows), packed_width] f32,
  // normalised, packed like the transformer's (column channel·latent_bins + bin). exec.dtype: of the activations.
  // Temporaries come from exec.arena. Taps: "conv_in", "down.i", "mid".
  void Forward(Exec& exec, const Tensor& mel, Tensor latent) const;

  const AudioEncoderConfig& config() const { return config_; }

 private:
  struct Level {
    std::vector<AudioResNet> resnets;
    std::optional<Weight> downsample;  // absent at the last level
  };

  AudioEncoder() = default;
  absl::Status LoadLevels(const WeightLoader& weights);
  int64_t LargestActivation(int64_t mel_rows) const;  // in elements
  void Downsample(Exec& exec, const Weight& conv, AudioScratch& s) const;

  AudioEncoderConfig config_;
  LatentNormalizer normalizer_;
  Weight conv_in_, conv_out_;
  std::vector<Level> levels_;
  std::vector<AudioResNet> mid_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AUDIO_ENCODER_H_
