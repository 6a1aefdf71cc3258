// What the samplers that add noise have in common: a row of factors for each evaluation, a row of noise, and
// predictions that are mixed with the clean latent.
#ifndef KINORA_ENGINE_DIFFUSION_NOISY_SAMPLER_H_
#define KINORA_ENGINE_DIFFUSION_NOISY_SAMPLER_H_

#include "engine/diffusion/sampler.h"

namespace kinora {

class NoisySampler : public Sampler {
 public:
  void SelectStep(Exec& exec, const Tensor& step) const override;
  Tensor noise() const override { return noises_; }
  void Step(Exec& exec, const Prediction& prediction, Tensor z) const override;
  // Copies the last prediction as it is: it is mixed with the clean latent already, and doing so twice would be wrong.
  void Finish(Exec& exec, const Prediction& prediction, Tensor z) const override;

 protected:
  // Allocates the tables. factors: [evaluations, slots], of which each applies to all channels.
  void ReserveTables(Exec& exec, SamplerKind kind, int64_t slots, absl::Span<const float> factors,
                     const LatentState& state);
  // The selected evaluation's factors, by slot.
  Modulation Factors() const { return {.table = current_}; }
  // The selected evaluation's noise: [tokens, channels].
  const Tensor& SelectedNoise() const { return noise_; }

 private:
  Tensor factors_;  // [RoomForSteps, slots·channels]
  Tensor current_;  // [1, slots, channels]: a copy of the selected row
  Tensor noises_;   // [RoomForNoise, tokens·channels]
  Tensor noise_;    // a copy of the selected row
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_NOISY_SAMPLER_H_
