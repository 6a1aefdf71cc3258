// The audio VAE decoder of every LTX-2 (ltx_core/model/audio_vae/audio_vae.py, AudioDecoder): from the transformer's
// normalised audio latent to log-mel rows, one a hop. Convolutions are over (time, mel), causal in time: a row depends
// on no later one. Activations are [1, time, mel, channels].
//
//   h = conv_in(z · σ + μ);   h = res(res(h))
//   per level, highest first: resnets + 1 times h = res(h); below it, nearest ×2 in time and mel, conv, first row
//   dropped
//   mel = conv_out(SiLU(norm(h)))      res, norm: audio_blocks.h
#ifndef KINORA_ENGINE_MODEL_AUDIO_DECODER_H_
#define KINORA_ENGINE_MODEL_AUDIO_DECODER_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/model/audio_blocks.h"
#include "engine/model/decoder_config.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class AudioDecoder {
 public:
  // weights: at the component "audio_vae", which holds decoder.* and per_channel_statistics.{mean,std}-of-means.
  // Unimplemented, naming `causality_axis`, for a decoder that is not causal in time.
  static absl::StatusOr<AudioDecoder> Load(WeightLoader weights, const AudioDecoderConfig& config);

  int64_t MelRows(int64_t latent_rows) const { return config_.factor() * (latent_rows - 1) + 1; }
  Shape OutputShape(int64_t latent_rows) const {
    return {config_.out_channels, MelRows(latent_rows), config_.mel_bins};
  }

  // latent: [rows >= 1, packed_width] f32, normalised, as the transformer packs it (column channel·latent_bins + bin)
  // mel: OutputShape(rows) f32, natural logarithm. exec.dtype is that of the activations in between; temporaries come
  // from exec.arena. Taps: "denormalised", "conv_in", "mid", "up.i".
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
  std::vector<Level> levels_;  // index as in the keys: 0 is the last to run
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_AUDIO_DECODER_H_
