// How a latent goes from one noise level to the next, given the model's predictions of the clean one (docs/model.md
// "Euler step", "res_2s").
#ifndef KINORA_ENGINE_DIFFUSION_SAMPLER_H_
#define KINORA_ENGINE_DIFFUSION_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/diffusion/latent_state.h"
#include "engine/diffusion/noise.h"
#include "engine/parallel/exec.h"

namespace kinora {

enum class SamplerKind : uint8_t { kEuler, kRes2s };

// The noise levels at which a sampler asks for a prediction, in their order, on the way along sigmas: steps + 1, the
// last 0. An evaluation each.
std::vector<float> EvaluationLevels(SamplerKind kind, absl::Span<const float> sigmas);
// Which step evaluation i of `evaluations` counts as where predictions are held (Guidance.skip_step).
int64_t HeldStep(SamplerKind kind, int64_t evaluation, int64_t evaluations);

// Noise that a sampler adds on the way: of generators of its own, equal in every stage of every run.
class StepNoise {
 public:
  // out: standardised, mean 0 and deviation 1 over all of it.
  void Fill(int64_t evaluation, absl::Span<float> out);

 private:
  // Of whole steps and of those half-way (ltx_pipelines/utils/samplers.py: noise_seed −1, and 10000 more).
  NoiseSource whole_{~uint64_t{0}}, half_way_{9999};
};

// Of one modality in one denoising stage; works on whole latents, so that every rank computes the same bits.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Takes from exec.arena what all evaluations need, valid until the caller's scope there ends, at addresses that do
  // not depend on the number of steps up to RoomForSteps. sigmas: steps + 1, the last 0. state: what is denoised, as it
  // is at the first level.
  virtual void Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) = 0;
  // What Step reads becomes that of the evaluation in `step` [1] i32, device memory.
  virtual void SelectStep(Exec& exec, const Tensor& step) const = 0;
  // Draws what an evaluation adds, on the host; not captured. Modalities draw in turn from one `noise`.
  virtual void TakeNoise(Exec& /*exec*/, int64_t /*evaluation*/, StepNoise& /*noise*/) const {}
  // prediction: of z at the evaluation's level, its x0 is written   z: [tokens, channels] f32, in place, to where the
  // next evaluation wants it
  virtual void Step(Exec& exec, const Prediction& prediction, Tensor z) const = 0;
  // The same with the x0 of an evaluation before.
  virtual void StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const = 0;
  // After the last evaluation: z is the result.
  virtual void Finish(Exec& /*exec*/, const Prediction& /*prediction*/, Tensor /*z*/) const {}
};

std::unique_ptr<Sampler> MakeSampler(SamplerKind kind);

// Steps that a table has memory for, whatever their number: what is laid out after it keeps its address.
constexpr int64_t RoomForSteps(int64_t steps) { return (steps + 31) / 32 * 32; }

// z += (z − x0)/σ·(σ' − σ).
class EulerSampler : public Sampler {
 public:
  void Reserve(Exec& exec, absl::Span<const float> sigmas, const LatentState& state) override;
  void SelectStep(Exec& exec, const Tensor& step) const override;
  void Step(Exec& exec, const Prediction& prediction, Tensor z) const override;
  void StepWithHeld(Exec& exec, const Prediction& prediction, Tensor z) const override;

 private:
  Tensor schedule_;  // [RoomForSteps, 2]: from, to
  Tensor current_;   // [1, 2]: one of its rows
};

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_SAMPLER_H_
