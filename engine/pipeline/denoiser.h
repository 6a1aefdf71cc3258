// The denoising loop: a sampler's steps over guided predictions. One captured step is replayed for every noise level.
#ifndef KINORA_ENGINE_PIPELINE_DENOISER_H_
#define KINORA_ENGINE_PIPELINE_DENOISER_H_

#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/diffusion/latent_state.h"
#include "engine/diffusion/sampler.h"
#include "engine/pipeline/step_graphs.h"
#include "engine/pipeline/velocity_model.h"

namespace kinora {

struct DenoiseSpec {
  PassList passes;  // those of the model
  PerModality<GuidanceScales> guidance;
  std::vector<float> sigmas;  // one more than steps; the last is 0
  SamplerKind sampler = SamplerKind::kEuler;
  uint64_t seed = 0;  // of the request, for the samplers' noise
  // k: predict on steps with step % (k + 1) == 0 and keep the last prediction on the others (Guidance.skip_step).
  PerModality<int> skip;
  PerModality<GivenStepNoise> given{};  // in place of the samplers' own draws
  // Per step: on_step reads its latents, so the next step waits for it. Empty: no step. The same on every rank.
  std::vector<bool> watched;
  // Evaluations that an earlier loop with equal arguments has done, up to all of them. The loop begins behind them.
  int64_t done = 0;
  // Called before the first step if `done` is not 0: sets the tensors to what `keep` saw after step done − 1.
  std::function<absl::Status(const CarriedTensors&)> restore{};
  // If not null, called after each step has been enqueued. Reads the tensors with copies on exec.ops.stream().
  std::function<absl::Status(int64_t step, const CarriedTensors&)> keep{};
  // If not null, set before the first step to the tensors that hold the last predictions of the clean latents.
  // Undefined for a modality that is not denoised.
  PerModality<Tensor>* x0 = nullptr;
};

// Denoises in place. state: noise on entry, clean latents on return. A modality without tokens is absent and must be
// absent from `model`; a frozen one must have noise levels of 0 there.
// Calls on_step(i) on rank 0 after the step of evaluation i (sampler.h, 0-based). If it fails, the loop ends (StepGate)
// on every rank: rank 0 returns its status, the others Cancelled. Captures steps into `graphs` unless exec.taps is set.
absl::Status Denoise(Exec& exec, const VelocityModel& model, const DenoiseSpec& spec, StepGraphs& graphs,
                     const PerModality<LatentState>& state, absl::FunctionRef<absl::Status(int64_t step)> on_step);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DENOISER_H_
