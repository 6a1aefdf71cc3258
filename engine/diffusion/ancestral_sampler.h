// Ancestral Euler (ltx_core/components/diffusion_steps.py EulerAncestralDiffusionStep with eta 1, and
// ltx_pipelines/utils/samplers.py euler_ancestral_denoising_loop): a step to a level below the next one, then noise up
// to it. The first stage of LTX-2.5's distilled recipes.
//
//   σ' = next level, σ_d = σ'²/σ, α = 1 − σ:
//   z = (α'/α_d)·((σ_d/σ)·z + (1 − σ_d/σ)·x0) + √(σ'² − σ_d²·α'²/α_d²)·noise, then mixed with the clean latent
//   the last   z = x0
//
// Each evaluation is one sum, whose factors are computed once, in the reference's single precision.
#ifndef KINORA_ENGINE_DIFFUSION_ANCESTRAL_SAMPLER_H_
#define KINORA_ENGINE_DIFFUSION_ANCESTRAL_SAMPLER_H_

#include <vector>

#include "engine/diffusion/noisy_sampler.h"

namespace kinora {

// z = z·(old z) + x0·(new x0) + noise·(noise).
struct AncestralFactors {
  float z = 0, x0 = 0, noise = 0;
};
// Returns the factors of each step.
std::vector<AncestralFactors> FactorsOfAncestral(absl::Span<const float> sigmas);

class AncestralSampler : public NoisySampler {
 public:
  void Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) override;
  void StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const override;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_ANCESTRAL_SAMPLER_H_
