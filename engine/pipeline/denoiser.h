// The denoising loop: Euler steps over guided predictions, a captured step replayed for every noise level.
#ifndef KINORA_ENGINE_PIPELINE_DENOISER_H_
#define KINORA_ENGINE_PIPELINE_DENOISER_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/pipeline/stage.h"

namespace kinora {

struct DenoiseSpec {
  Ops::GuidanceWeights video_weights, audio_weights;  // of the stage's passes
  std::vector<float> sigmas;                          // steps + 1, the last 0
  // k: predict anew on steps with step % (k + 1) == 0 and keep the prediction on the others (Guidance.skip_step).
  int video_skip = 0, audio_skip = 0;
};

// z_video: [stage.video_rows(), channels], z_audio: [stage.audio_tokens(), channels] f32, in place: noise in, clean
// latents out. on_step(i), after step i (0-based), is called on rank 0; what it returns, unless OK, ends the loop on
// every rank after that step: rank 0 with that status, the others with Cancelled. Steps are captured unless exec.taps
// is set.
absl::Status Denoise(Exec& exec, const Stage& stage, const DenoiseSpec& spec, Tensor z_video, Tensor z_audio,
                     absl::FunctionRef<absl::Status(int64_t step)> on_step);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DENOISER_H_
