// How a latent goes from one noise level to the next, given the model's prediction of the clean one (docs/model.md
// "Euler step").
#ifndef KINORA_ENGINE_DIFFUSION_SAMPLER_H_
#define KINORA_ENGINE_DIFFUSION_SAMPLER_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "engine/parallel/exec.h"

namespace kinora {

enum class SamplerKind : uint8_t { kEuler };

// Of one denoising stage; works on whole latents, so that every rank computes the same bits.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Takes from exec.arena what all steps need, valid until the caller's scope there ends, at addresses that do not
  // depend on the number of steps up to RoomForSteps. sigmas: steps + 1, the last 0.
  virtual void Reserve(Exec& exec, absl::Span<const float> sigmas) = 0;
  // What Step reads becomes that of the step in `step` [1] i32, device memory.
  virtual void SelectStep(Exec& exec, const Tensor& step) const = 0;
  // prediction: of z at sigmas[i], its x0 is written   z: [tokens, channels] f32, to sigmas[i + 1] in place
  virtual void Step(Exec& exec, const Prediction& prediction, Tensor z) const = 0;
  // The same with the x0 of a step before.
  virtual void StepWithHeld(Exec& exec, const Tensor& x0, Tensor z) const = 0;
};

std::unique_ptr<Sampler> MakeSampler(SamplerKind kind);

// Steps that a table has memory for, whatever their number: what is laid out after it keeps its address.
constexpr int64_t RoomForSteps(int64_t steps) { return (steps + 31) / 32 * 32; }

// z += (z − x0)/σ·(σ' − σ).
class EulerSampler : public Sampler {
 public:
  void Reserve(Exec& exec, absl::Span<const float> sigmas) override;
  void SelectStep(Exec& exec, const Tensor& step) const override;
  void Step(Exec& exec, const Prediction& prediction, Tensor z) const override;
  void StepWithHeld(Exec& exec, const Tensor& x0, Tensor z) const override;

 private:
  Tensor schedule_;  // [RoomForSteps, 2]: from, to
  Tensor current_;   // [1, 2]: one of its rows
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_SAMPLER_H_
