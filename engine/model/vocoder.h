// Turns log-mel rows into the clip's waveform (ltx_core/model/audio_vae/vocoder.py). LTX-2.0 has one generator. LTX-2.3
// has a generator at a low rate and a bandwidth extension: a second generator that gets the log-mel rows of the first
// one's output and adds the higher frequencies.
//
//   low  = base(mel)                                    clamped to [−1, 1] by its final activation
//   mel' = ln(max(mel_basis · |STFT(low)|, 1e-5))       causal: n_fft − hop zeros in front; stored bases
//   wave = clamp(extension(mel') + resample(low), −1, 1)
//
// resample is a Hann-windowed sinc with 6 zero crossings per side, torchaudio's default. Always float32: according to
// the reference, the errors of a hundred successive convolutions in bf16 are audible.
#ifndef KINORA_ENGINE_MODEL_VOCODER_H_
#define KINORA_ENGINE_MODEL_VOCODER_H_

#include <optional>

#include "engine/config/decoder_config.h"
#include "engine/model/vocoder_generator.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class Vocoder {
 public:
  // weights: at the component "vocoder". mel_source: the decoder that makes the log-mel rows. Fails with
  // InvalidArgument, naming the field, if parts of the configuration do not fit each other or mel_source, or with
  // Unimplemented if the activation is not supported.
  static absl::StatusOr<Vocoder> Load(const WeightLoader& weights, const VocoderConfig& config,
                                      const AudioDecoderConfig& mel_source);

  int64_t sample_rate() const { return config_.output_rate; }
  int64_t channels() const { return config_.base.out_channels; }
  int64_t Samples(int64_t mel_rows) const;  // per channel

  // mel: [channels of the audio decoder, rows >= 1, mel bins] f32
  // waveform: [channels, Samples(rows)] f32 in [−1, 1]
  // Temporaries come from exec.arena; exec.dtype is not read. Taps: those of the base generator; with bandwidth
  // extension also "base" [rows · factor, channels], "bwe_mel" [frames, channels · mel bins], "residual" [padded
  // samples, channels].
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
  int64_t PaddedRows(int64_t low_samples) const;  // rounded up to a multiple of the hop
  // low: [PaddedRows, channels]   out: [PaddedRows · ratio, channels]
  void Extend(Exec& exec, const Tensor& low, Tensor out) const;
  void ComputeMel(Exec& exec, const Tensor& low, Tensor mel) const;

  VocoderConfig config_;
  Generator base_;
  std::optional<Extension> extension_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_VOCODER_H_
