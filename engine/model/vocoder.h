// From log-mel rows to the waveform of the clip (ltx_core/model/audio_vae/vocoder.py). LTX-2.0: one generator. 2.3: a
// generator at a low rate, then bandwidth extension: a second generator, fed the log-mel rows of the first one's
// output, adds what lies above it.
//
//   low  = base(mel)                                    clamped to [−1, 1] by its final activation
//   mel' = ln(max(mel_basis · |STFT(low)|, 1e-5))       causal: n_fft − hop zeros in front; the bases are the file's
//   wave = clamp(extension(mel') + resample(low), −1, 1)
//
// resample is a Hann-windowed sinc with 6 zero crossings per side, as torchaudio's default. Always float32: in bf16 the
// errors of a hundred convolutions in a row are audible (the reference's finding).
#ifndef KINORA_ENGINE_MODEL_VOCODER_H_
#define KINORA_ENGINE_MODEL_VOCODER_H_

#include <optional>

#include "engine/model/decoder_config.h"
#include "engine/model/vocoder_generator.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class Vocoder {
 public:
  // weights: at the component "vocoder". mel_source: whose rows it will be given.
  // InvalidArgument, naming the field, for a configuration whose parts do not fit each other or mel_source;
  // Unimplemented for an activation that no model uses.
  static absl::StatusOr<Vocoder> Load(const WeightLoader& weights, const VocoderConfig& config,
                                      const AudioDecoderConfig& mel_source);

  int64_t sample_rate() const { return config_.output_rate; }
  int64_t channels() const { return config_.base.out_channels; }
  int64_t Samples(int64_t mel_rows) const;  // a channel

  // mel: [channels of the audio decoder, rows >= 1, mel bins] f32   waveform: [channels, Samples(rows)] f32 in [−1, 1].
  // Temporaries come from exec.arena; exec.dtype is not read. Taps: the base generator's; with bandwidth extension also
  // "base" [rows · factor, channels], "bwe_mel" [frames, channels · mel bins], "residual" [as the waveform, channels].
  void Forward(Exec& exec, const Tensor& mel, Tensor waveform) const;

 private:
  struct Extension {
    Generator generator;
    Weight basis;      // [2·bins, n_fft]: real rows, then imaginary ones
    Weight mel;        // [mel bins, bins]
    Weight resampler;  // [ratio·channels, taps, channels], columns in the order (phase, channel)
    int64_t ratio = 1;
    int64_t n_fft = 0, hop = 0, mel_bins = 0;
  };

  static absl::Status CheckConfig(const VocoderConfig& config, const AudioDecoderConfig& mel_source);
  static absl::StatusOr<Extension> LoadExtension(const WeightLoader& weights, const VocoderConfig& config);
  int64_t PaddedRows(int64_t low_samples) const;  // up to a whole hop
  // low: [PaddedRows, channels]   out: [PaddedRows · ratio, channels]
  void Extend(Exec& exec, const Tensor& low, Tensor out) const;
  void ComputeMel(Exec& exec, const Tensor& low, Tensor mel) const;

  VocoderConfig config_;
  Generator base_;
  std::optional<Extension> extension_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_VOCODER_H_
