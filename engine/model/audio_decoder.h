// The audio VAE decoder of all LTX-2 models (ltx_core/model/audio_vae/audio_vae.py, AudioDecoder). Turns the
// transformer's normalised audio latent into log-mel rows, one per hop. Convolutions are over (time, mel) and causal in
// time: a row depends on no later row. Activations are [1, time, mel, channels].
//
//   h = conv_in(z · σ + μ);   h = res(res(h))
//   per level, highest first:
//     resnets + 1 times   h = res(h)
//     except in level 0:  h = conv(nearest ×2 of h in time and mel), without its first row
//   mel = conv_out(SiLU(norm(h)))      res, norm: audio_blocks.h
#ifndef KINORA_ENGINE_MODEL_AUDIO_DECODER_H_
#define KINORA_ENGINE_MODEL_AUDIO_DECODER_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/config/decoder_config.h"
#include "engine/model/audio_blocks.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class AudioDecoder {
 public:
  // Reads decoder.* and per_channel_statistics.{mean,std}-of-means under `weights` (component "audio_vae"). Fails with
  // Unimplemented, naming `causality_axis`, if the decoder is not causal in time.
  static absl::StatusOr<AudioDecoder> Load(WeightLoader weights, const AudioDecoderConfig& config);

  int64_t MelRows(int64_t latent_rows) const { return config_.factor() * (latent_rows - 1) + 1; }
  Shape OutputShape(int64_t latent_rows) const {
    return {config_.out_channels, MelRows(latent_rows), config_.mel_bins};
  }

  // latent: [rows >= 1, packed_width] f32, normalised, packed for the transformer (column channel·latent_bins + bin)
  // mel: OutputShape(rows) f32, natural logarithm. exec.dtype: of the activations. Temporaries come from exec.arena.
  // Taps: "denormalised", "conv_in", "mid", "up.i".
  void Forward(Exec& exec, const Tensor& latent, Tensor mel) const;

  const AudioDecoderConfig& config() const { return config_; }

 private:
  struct Level {
    std::vector<AudioResNet> resnets;
    std::optional<Weight> upsample;  // absent at level 0
  };

  AudioDecoder() = default;
  absl::Status LoadLevels(WeightLoader weights);
  int64_t LargestActivation(int64_t latent_rows) const;  // in elements
  void Upsample(Exec& exec, const Weight& conv, AudioScratch& s) const;

  AudioDecoderConfig config_;
  Parameter mean_, std_;  // [packed_width]
  Weight conv_in_, conv_out_;
  std::vector<AudioResNet> mid_;
  std::vector<Level> levels_;  // indexed as in the tensor names: 0 runs last
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AUDIO_DECODER_H_
