// The denoising loop: a sampler's steps over guided predictions, a captured step replayed for every noise level.
#ifndef KINORA_ENGINE_PIPELINE_DENOISER_H_
#define KINORA_ENGINE_PIPELINE_DENOISER_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/diffusion/latent_state.h"
#include "engine/diffusion/sampler.h"
#include "engine/pipeline/step_graphs.h"
#include "engine/pipeline/velocity_model.h"

namespace kinora {

struct DenoiseSpec {
  PassList passes;  // the model's
  PerModality<GuidanceScales> guidance;
  std::vector<float> sigmas;  // steps + 1, the last 0
  SamplerKind sampler = SamplerKind::kEuler;
  // k: predict anew on steps with step % (k + 1) == 0 and hold the prediction on the others (Guidance.skip_step).
  PerModality<int> skip;
  std::vector<bool> watched;  // by step: on_step reads its latents, and the next one waits; empty: none. As on rank 0
  // Becomes where the last predictions of the clean latents lie, before the first step; undefined of what is not
  // denoised. Null: not wanted.
  PerModality<Tensor>* x0 = nullptr;
};

// state: of both modalities, in place: noise in, clean latents out; one without tokens is absent, as in `model`, where
// a frozen one has noise levels of 0. on_step(i), after the step of evaluation i (sampler.h, 0-based), is called on
// rank 0; what it returns, unless OK, ends the loop on every rank: rank 0 with that status, the others with Cancelled.
// Steps are captured into `graphs` unless exec.taps is set.
absl::Status Denoise(Exec& exec, const VelocityModel& model, const DenoiseSpec& spec, StepGraphs& graphs,
                     const PerModality<LatentState>& state, absl::FunctionRef<absl::Status(int64_t step)> on_step);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DENOISER_H_
