// A sampler beside a golden of Lightricks' loop: latents, clean latents and masks of both modalities.
#ifndef KINORA_TESTS_DIFFUSION_SAMPLER_GOLDEN_H_
#define KINORA_TESTS_DIFFUSION_SAMPLER_GOLDEN_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/diffusion/sampler.h"
#include "tests/testing/golden.h"
#include "tests/testing/model_rig.h"

namespace kinora {

std::vector<float> ToFloats(const Tensor& t);

struct GoldenModality {
  std::string name;
  std::unique_ptr<Sampler> sampler;
  LatentState state;
  Prediction prediction;
};

// Returns the modality `name`, with a sampler that has reserved its memory.
GoldenModality StartModality(ModelRig& rig, Golden& golden, const std::string& name, SamplerKind kind,
                             const std::vector<float>& sigmas);

// Runs the sampler of `kind` with the predictions of the golden and the noise of `seed`, and compares the latents
// before each evaluation, and the result.
void ExpectSamplerEquals(ModelRig& rig, Golden& golden, SamplerKind kind, uint64_t seed);

}  // namespace kinora

#endif  // KINORA_TESTS_DIFFUSION_SAMPLER_GOLDEN_H_
