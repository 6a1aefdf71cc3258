#include "engine/pipeline/audio_encode_stage.h"

#include <algorithm>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/model/resampler.h"

namespace kinora {

// Returns the span as [channels, samples] f32 at the encoder's rate.
Tensor AudioEncodeStage::Upload(Exec& exec, const AudioClip& sound, const SoundSpan& span, ArenaScope& scope) const {
  const AudioEncoderConfig& config = encoder_.config();
  const int64_t rate = config.vae.sample_rate, length = ResampledLength(span.samples, span.sample_rate, rate);
  const Tensor to = scope.Alloc(DType::kF32, {config.in_channels, length});
  if (exec.ops.dry()) return to;
  std::vector<float> heard;
  for (int64_t c = 0; c < config.in_channels; ++c) {
    if (c < sound.channels) {
      const int64_t first = c * sound.samples + span.begin;
      heard = Resample(absl::MakeConstSpan(sound.waveform).subspan(first, span.samples), span.sample_rate, rate);
    }
    exec.ops.stream().CopyFromHost(heard.data(), to.Rows(c, c + 1));
  }
  return to;
}

absl::Status AudioEncodeStage::Run(Exec& exec, const AudioClip& sound, const SoundSpan& span, Tensor latent) const {
  const AudioEncoderConfig& config = encoder_.config();
  const int64_t length = ResampledLength(span.samples, span.sample_rate, config.vae.sample_rate);
  KINORA_RETURN_IF_ERROR(mel_.CheckSound(length));
  if (sound.channels != 0 && sound.channels != 1 && sound.channels != config.in_channels) {
    return absl::InvalidArgumentError(
        Cat(sound.channels, " channels; this model takes ", config.in_channels, ", or one"));
  }
  ArenaScope scope(exec.arena);
  const Tensor mel = scope.Alloc(DType::kF32, {config.in_channels, mel_.Rows(length), config.vae.mel_bins});
  {
    ArenaScope heard(exec.arena);
    mel_.Forward(exec, Upload(exec, sound, span, heard), mel);
  }
  const int64_t made = encoder_.LatentRows(mel.dim(1)), kept = std::min(made, latent.rows());
  const Tensor encoded = scope.Alloc(DType::kF32, {made, latent.width()});
  encoder_.Forward(exec, mel, encoded);
  exec.ops.stream().Copy(encoded.Rows(0, kept), latent.Rows(0, kept));
  if (kept < latent.rows()) exec.ops.Fill(0.0f, latent.Rows(kept, latent.rows()));
  return absl::OkStatus();
}

}  // namespace kinora
