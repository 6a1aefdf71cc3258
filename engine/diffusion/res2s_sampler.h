// res_2s (ltx_pipelines/utils/samplers.py res2s_audio_video_denoising_loop, its defaults): a Runge-Kutta step of second
// order in the logarithm of the noise level, with noise added half-way and at its end.
//
//   evaluation 2k      x̂ = z;  x0₁ = model(z, σ);  mid = x̂ + h·a21·(x0₁ − x̂), then noise;  where h < ½ and σ > 0.03
//                      a hundred times x̂ = mid − h·a21·(x0₁ − x̂);  z = mid
//   evaluation 2k + 1  x0₂ = model(z, √(σσ'));  z = x̂ + h·(b1·(x0₁ − x̂) + b2·(x0₂ − x̂)), then noise
//   the last           z = model(z, 0.0011)
//
// with h = ln(σ/σ'), and σ' of the last step 0.0011. All of it is linear in x̂, x0₁, x0₂ and the noise, the hundred
// rounds too: each evaluation is two sums with factors that are computed once, in double precision where the reference
// has it. A latent under a mask is mixed with its clean one after each sum.
#ifndef KINORA_ENGINE_DIFFUSION_RES2S_SAMPLER_H_
#define KINORA_ENGINE_DIFFUSION_RES2S_SAMPLER_H_

#include <vector>

#include "engine/diffusion/sampler.h"

namespace kinora {

// 2·steps + 1 levels: each but the last 0, the ones half-way to the next, and 0.0011.
std::vector<float> Res2sLevels(absl::Span<const float> sigmas);

// z becomes anchor·x̂ + x0·x0 + held·x0₁ + noise·noise, then x̂ becomes the sum with the second three.
struct Res2sFactors {
  double anchor = 0, x0 = 0, held = 0, noise = 0;
  double next_anchor = 0, next_x0 = 0, next_z = 0;
};
// Of each evaluation.
std::vector<Res2sFactors> FactorsOfRes2s(absl::Span<const float> sigmas);

// x = mask·x + (1 − mask)·clean of the prediction; nothing if it has no clean latent.
void MixWithClean(Ops& ops, const Prediction& prediction, Tensor x);

class Res2sSampler : public Sampler {
 public:
  void Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) override;
  void SelectStep(Exec& exec, const Tensor& step) const override;
  void TakeNoise(Exec& exec, int64_t evaluation, StepNoise& noise) const override;
  void Step(Exec& exec, const Prediction& prediction, Tensor z) const override;
  void StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const override;
  void Finish(Exec& exec, const Prediction& prediction, Tensor z) const override;

 private:
  int64_t evaluations_ = 0;
  Tensor factors_;                // [RoomForSteps, slots·channels]
  Tensor current_;                // [1, slots·channels]: one of its rows
  Tensor anchor_, held_, noise_;  // x̂, x0₁: [tokens, channels]
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_RES2S_SAMPLER_H_
