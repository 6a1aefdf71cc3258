// Encodes given sound into the transformer's audio latent: resamples it, computes log-mel rows, encodes them, and cuts
// or pads the result to the clip's number of latents.
#ifndef KINORA_ENGINE_PIPELINE_AUDIO_ENCODE_STAGE_H_
#define KINORA_ENGINE_PIPELINE_AUDIO_ENCODE_STAGE_H_

#include "absl/status/status.h"
#include "engine/model/audio_encoder.h"
#include "engine/model/mel_front_end.h"
#include "engine/parallel/exec.h"
#include "engine/request/given_sound.h"

namespace kinora {

class AudioEncodeStage {
 public:
  // Both must outlive the stage.
  AudioEncodeStage(const AudioEncoder& encoder, const MelFrontEnd& mel) : encoder_(encoder), mel_(mel) {}

  // sound: has one channel, which is used for all of the model's, or as many channels as the model; contains `span`.
  // May be empty in a dry run. latent: [latents, packed width] f32, normalised. Gets the encoder's first rows, and
  // zeros beyond its last. Fails with InvalidArgument if the number of channels differs, or if the span is too short to
  // encode. Runs on the calling rank alone. Temporaries come from exec.arena.
  absl::Status Run(Exec& exec, const AudioClip& sound, const SoundSpan& span, Tensor latent) const;

 private:
  Tensor Upload(Exec& exec, const AudioClip& sound, const SoundSpan& span, ArenaScope& scope) const;

  const AudioEncoder& encoder_;
  const MelFrontEnd& mel_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_AUDIO_ENCODE_STAGE_H_
