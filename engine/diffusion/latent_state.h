// The state of one modality in a denoising loop: whole latents, equal on every rank.
#ifndef KINORA_ENGINE_DIFFUSION_LATENT_STATE_H_
#define KINORA_ENGINE_DIFFUSION_LATENT_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tensor/tensor.h"

namespace kinora {

// The rows of a latent: tokens of the grid, then appended tokens, then zero padding that no token reads, up to
// `padded`.
struct TokenLayout {
  int64_t grid = 0, appended = 0, padded = 0;
  int64_t tokens() const { return grid + appended; }
};

struct LatentState {
  TokenLayout layout;
  Tensor z;  // [layout.padded, channels] f32: noise in, clean latents out
  // Each prediction becomes x0 = mask·x0 + (1 − mask)·clean (docs/model.md "Masks"). A token's noise level is
  // mask·sigma.
  Tensor clean;             // [layout.tokens(), channels] f32; read only if `mask` is not empty
  std::vector<float> mask;  // [layout.tokens()], 0..1; empty: 1
  // z is clean and does not change. Its noise level is 0; it still provides keys and values to the other modality.
  bool frozen = false;
};

// A tensor that carries a denoising loop from one step to the next: [tokens, channels] f32 on the device, equal on
// every rank.
struct CarriedTensor {
  std::string name;  // "video.z", "audio.x0"
  Tensor value;
};
using CarriedTensors = std::vector<CarriedTensor>;

// Distinct values of a mask in order of appearance, and the index of each token's value.
struct DistinctMask {
  std::vector<float> values;  // padded with the last one to a power of two, to limit the number of graph shapes
  std::vector<int32_t> row;   // empty if there is one value
};
DistinctMask Distinguish(const std::vector<float>& mask);

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_LATENT_STATE_H_
