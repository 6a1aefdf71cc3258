// From sound to the log-mel rows that the audio VAE's encoder reads (ltx_core/model/audio_vae/ops.py, AudioProcessor;
// torchaudio.transforms.MelSpectrogram).
//
//   mel = ln(max(filters · |STFT(sound)|, 1e-5))
//
// STFT: n_fft samples under a periodic Hann window around every hop-th one, the sound reflected at its ends. Filters:
// triangles from 0 Hz to half the rate, spaced and scaled as Slaney's.
#ifndef KINORA_ENGINE_MODEL_MEL_FRONT_END_H_
#define KINORA_ENGINE_MODEL_MEL_FRONT_END_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/encoder_config.h"
#include "engine/parallel/exec.h"

namespace kinora {

class MelFrontEnd {
 public:
  // Puts the bases where `backend` computes. ResourceExhausted.
  static absl::StatusOr<MelFrontEnd> Make(Backend& backend, const AudioEncoderConfig& config);

  // sound: what the encoder's sample_rate gives. InvalidArgument naming `audio` if it is too short to be reflected.
  absl::Status CheckSound(int64_t samples) const;
  int64_t Rows(int64_t samples) const { return samples / config_.vae.hop_length + 1; }

  // sound: [channels, samples] f32 at config.vae.sample_rate, as CheckSound says   mel: [channels, Rows(samples),
  // mel_bins] f32. Temporaries come from exec.arena; exec.dtype is not read.
  void Forward(Exec& exec, const Tensor& sound, Tensor mel) const;

 private:
  AudioEncoderConfig config_;
  Weight basis_;    // [2 · bins, n_fft, 1]: real rows, then imaginary ones
  Weight filters_;  // [mel_bins, bins]
};

// The parts of it, for tests.
std::vector<float> WindowedFourierBasis(int64_t n_fft);                                  // [2 · bins, n_fft]
std::vector<float> SlaneyFilters(int64_t mel_bins, int64_t n_fft, int64_t sample_rate);  // [mel_bins, bins]

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_MEL_FRONT_END_H_
