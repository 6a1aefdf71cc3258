// Computes the log-mel rows of sound for the audio VAE's encoder (ltx_core/model/audio_vae/ops.py, AudioProcessor;
// torchaudio.transforms.MelSpectrogram).
//
//   mel = ln(max(filters · |STFT(sound)|, 1e-5))
//
// STFT: a periodic Hann window of n_fft samples around every hop-th sample, with the sound reflected at its ends.
// Filters: triangles from 0 Hz to half the sample rate on Slaney's scale, with Slaney's normalisation.
#ifndef KINORA_ENGINE_MODEL_MEL_FRONT_END_H_
#define KINORA_ENGINE_MODEL_MEL_FRONT_END_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/config/encoder_config.h"
#include "engine/parallel/exec.h"

namespace kinora {

class MelFrontEnd {
 public:
  // Uploads the bases to `backend`'s device. Fails with ResourceExhausted.
  static absl::StatusOr<MelFrontEnd> Make(Backend& backend, const AudioEncoderConfig& config);

  // samples: at the encoder's sample_rate. Fails with InvalidArgument if the sound is too short to be reflected.
  absl::Status CheckSound(int64_t samples) const;
  int64_t Rows(int64_t samples) const { return samples / config_.vae.hop_length + 1; }

  // sound: [channels, samples] f32 at config.vae.sample_rate; must pass CheckSound   mel: [channels, Rows(samples),
  // mel_bins] f32. Temporaries come from exec.arena; exec.dtype is not read.
  void Forward(Exec& exec, const Tensor& sound, Tensor mel) const;

 private:
  AudioEncoderConfig config_;
  Weight basis_;    // [2 · bins, n_fft, 1]: real rows, then imaginary ones
  Weight filters_;  // [mel_bins, bins]
};

// Its parts, for tests.
std::vector<float> WindowedFourierBasis(int64_t n_fft);                                  // [2 · bins, n_fft]
std::vector<float> SlaneyFilters(int64_t mel_bins, int64_t n_fft, int64_t sample_rate);  // [mel_bins, bins]

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_MEL_FRONT_END_H_
