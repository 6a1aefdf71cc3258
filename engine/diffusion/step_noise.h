// Noise that a sampler adds between steps (docs/model.md "Ancestral Euler", "res_2s").
#ifndef KINORA_ENGINE_DIFFUSION_STEP_NOISE_H_
#define KINORA_ENGINE_DIFFUSION_STEP_NOISE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "engine/diffusion/noise.h"
#include "engine/parallel/exec.h"

namespace kinora {

// Noise for one modality's sampler in place of its own draws, added without normalisation. Each vector holds the packed
// tokens of `draws` steps, one after the other; an empty one leaves the sampler's own noise. half_way: of res_2s only.
struct GivenStepNoise {
  struct Draws {
    std::vector<float> grid, appended;
  };
  int64_t draws = 0;
  Draws half_way, whole;
};

// The samplers' own noise.
class StepNoise {
 public:
  virtual ~StepNoise() = default;
  // Takes the random bits of out [tokens, channels] from the generators. The returned task computes the values from
  // them, on any thread, and replaces the parts that are given. `given` and the memory of `out` must outlive the task.
  virtual std::function<void()> Take(int64_t evaluation, const GivenStepNoise& given, absl::Span<float> out) = 0;
};

// One generator, whose seed follows from the request's (ltx_pipelines/distilled.py ANCESTRAL_NOISE_SEED_OFFSET): with
// the request's own seed, the first draw would be the initial latent.
class AncestralNoise : public StepNoise {
 public:
  explicit AncestralNoise(uint64_t seed) : source_(seed + 10000) {}
  std::function<void()> Take(int64_t evaluation, const GivenStepNoise& given, absl::Span<float> out) override;

 private:
  NoiseSource source_;
};

// Noise normalised to mean 0 and deviation 1 over all elements. Its generators have fixed seeds, so it is equal in
// every stage of every run.
class Res2sNoise : public StepNoise {
 public:
  std::function<void()> Take(int64_t evaluation, const GivenStepNoise& given, absl::Span<float> out) override;

 private:
  // For whole steps and half-way points (ltx_pipelines/utils/samplers.py: noise_seed −1, and 10000 more).
  NoiseSource whole_{~uint64_t{0}}, half_way_{9999};
};

// Where a modality's noise is kept on the device: row i holds the draw of evaluation i.
struct StepNoiseTable {
  Tensor rows;                            // [at least the draws, tokens·channels] f32; undefined: no noise
  const GivenStepNoise* given = nullptr;  // never null
};

// Draws the noise of evaluations 0 … draws − 1 and copies it to the device. In each evaluation the modalities draw in
// the order of `tables`. Uses the host's threads; on the host it takes, for a while, up to 96 bytes
// per element of a row.
void FillStepNoise(Exec& exec, StepNoise& noise, int64_t draws, absl::Span<const StepNoiseTable> tables);

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_STEP_NOISE_H_
