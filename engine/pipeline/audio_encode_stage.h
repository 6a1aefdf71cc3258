// From given sound to the transformer's audio latent: resampled, log-mel rows, the encoder, as many latents as a clip
// has.
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

  // sound: of one channel, which counts as as many equal ones as the model hears, or of that many; holds `span`; in a
  // dry run none is needed   latent: [latents, packed width] f32, normalised: the first ones that the encoder gives,
  // and zeros where it gives fewer. InvalidArgument naming audio: other channels, or a span too short to be encoded. A
  // rank that wants the latent encodes: no other takes part. Temporaries come from exec.arena.
  absl::Status Run(Exec& exec, const AudioClip& sound, const SoundSpan& span, Tensor latent) const;

 private:
  Tensor Upload(Exec& exec, const AudioClip& sound, const SoundSpan& span, ArenaScope& scope) const;

  const AudioEncoder& encoder_;
  const MelFrontEnd& mel_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_AUDIO_ENCODE_STAGE_H_
