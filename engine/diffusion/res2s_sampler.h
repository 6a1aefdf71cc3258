// res_2s (ltx_pipelines/utils/samplers.py res2s_audio_video_denoising_loop, its defaults): a second-order Runge-Kutta
// step in the logarithm of the noise level, with noise added half-way and at the end.
//
//   evaluation 2k      x̂ = z;  x0₁ = model(z, σ);  mid = x̂ + h·a21·(x0₁ − x̂), then noise
//                      if h < ½ and σ > 0.03, a hundred times:  x̂ = mid − h·a21·(x0₁ − x̂)
//                      z = mid
//   evaluation 2k + 1  x0₂ = model(z, √(σσ'))
//                      z = x̂ + h·(b1·(x0₁ − x̂) + b2·(x0₂ − x̂)), then noise
//   the last           z = model(z, 0.0011)
//
// h = ln(σ/σ'); σ' is 0.0011 in the last step. All, even the hundred rounds, is linear in x̂, x0₁, x0₂ and
// the noise. Each evaluation is therefore two sums, whose factors are computed once, in double precision where the
// reference uses it. With a mask, the latent is mixed with the clean one after the first sum.
#ifndef KINORA_ENGINE_DIFFUSION_RES2S_SAMPLER_H_
#define KINORA_ENGINE_DIFFUSION_RES2S_SAMPLER_H_

#include <vector>

#include "engine/diffusion/noisy_sampler.h"

namespace kinora {

// Returns 2·steps + 1 levels: for each step its level and the one half-way to the next; at the end 0.0011.
std::vector<float> Res2sLevels(absl::Span<const float> sigmas);

// Factors of one evaluation: z = anchor·x̂ + x0·(new x0) + held·(x0₁) + noise·(noise), then
// x̂ = next_anchor·x̂ + next_x0·(new x0) + next_z·z.
struct Res2sFactors {
  double anchor = 0, x0 = 0, held = 0, noise = 0;
  double next_anchor = 0, next_x0 = 0, next_z = 0;
};
// Returns the factors of each evaluation.
std::vector<Res2sFactors> FactorsOfRes2s(absl::Span<const float> sigmas);

class Res2sSampler : public NoisySampler {
 public:
  void Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) override;
  void StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const override;
  std::vector<std::pair<const char*, Tensor>> Carried() const override;

 private:
  Tensor anchor_, held_;  // x̂ and x0₁: [tokens, channels]
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_RES2S_SAMPLER_H_
