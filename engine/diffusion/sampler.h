// Samplers: they move a latent from one noise level to the next, given the model's predictions of the clean latent
// (docs/model.md "Euler step", "Ancestral Euler", "res_2s").
#ifndef KINORA_ENGINE_DIFFUSION_SAMPLER_H_
#define KINORA_ENGINE_DIFFUSION_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/diffusion/latent_state.h"
#include "engine/diffusion/step_noise.h"
#include "engine/parallel/exec.h"

namespace kinora {

enum class SamplerKind : uint8_t { kEuler, kAncestral, kRes2s };

// Returns the noise levels at which a sampler needs a prediction, in order. Each is one evaluation. sigmas: steps + 1
// levels, the last 0.
std::vector<float> EvaluationLevels(SamplerKind kind, absl::Span<const float> sigmas);
// Returns the step to which `evaluation` belongs for Guidance.skip_step. 0 if the evaluation always needs a prediction.
int64_t HeldStep(SamplerKind kind, int64_t evaluation, int64_t evaluations);

// The sampler of one modality in one denoising stage. It works on whole latents, so every rank computes the same bits.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Allocates the tensors of all evaluations from exec.arena, valid until the caller's scope there ends. Their
  // addresses are the same for all numbers of steps with the same RoomForSteps and RoomForNoise. sigmas: steps + 1
  // levels, the last 0. state: at the first level.
  virtual void Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) = 0;
  // Selects the evaluation whose factors Step reads. step: [1] i32 in device memory.
  virtual void SelectStep(Exec& exec, const Tensor& step) const = 0;
  // Returns the memory for the noise of all evaluations but the last, which FillStepNoise must fill before the first
  // step: [RoomForNoise, tokens·channels]. Undefined: the sampler adds none.
  virtual Tensor noise() const { return {}; }
  // Moves z to the level of the next evaluation. prediction: of z at this evaluation's level; its x0 is written.
  // z: [tokens, channels] f32, in place.
  virtual void Step(Exec& exec, const Prediction& prediction, Tensor z) const = 0;
  // Like Step, with the x0 of an earlier evaluation.
  virtual void StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const = 0;
  // Sets z to the result. Call after the last evaluation.
  virtual void Finish(Exec& /*exec*/, const Prediction& /*prediction*/, Tensor /*z*/) const {}
  // Returns the tensors besides z that an evaluation leaves for later ones, [tokens, channels] f32, with their names.
  virtual std::vector<std::pair<const char*, Tensor>> Carried() const { return {}; }
};

std::unique_ptr<Sampler> MakeSampler(SamplerKind kind);
// Returns the source of the noise that the samplers of a stage add. Null: they add none. seed: the request's.
std::unique_ptr<StepNoise> MakeStepNoise(SamplerKind kind, uint64_t seed);

// Sets x to mask·x + (1 − mask)·clean, with the prediction's mask and clean latent. Does nothing if it has none.
void MixWithClean(Ops& ops, const Prediction& prediction, Tensor x);

// Number of steps for which a table reserves memory. Rounding up keeps the addresses of later allocations the same.
constexpr int64_t RoomForSteps(int64_t steps) { return (steps + 31) / 32 * 32; }
// Number of evaluations for whose noise a sampler reserves memory. A draw is as large as the latent.
constexpr int64_t RoomForNoise(SamplerKind kind, int64_t evaluations) {
  return kind == SamplerKind::kEuler ? 0 : (evaluations + 7) / 8 * 8;
}

// z += (z − x0)/σ·(σ' − σ).
class EulerSampler : public Sampler {
 public:
  void Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) override;
  void SelectStep(Exec& exec, const Tensor& step) const override;
  void Step(Exec& exec, const Prediction& prediction, Tensor z) const override;
  void StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const override;

 private:
  Tensor schedule_;  // [RoomForSteps, 2]: from, to
  Tensor current_;   // [1, 2]: a copy of the selected row
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_SAMPLER_H_
