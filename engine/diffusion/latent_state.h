// What a denoising loop works on, of one modality: whole latents, equal on every rank.
#ifndef KINORA_ENGINE_DIFFUSION_LATENT_STATE_H_
#define KINORA_ENGINE_DIFFUSION_LATENT_STATE_H_

#include <cstdint>
#include <vector>

#include "engine/tensor/tensor.h"

namespace kinora {

// The rows of a latent: tokens of the grid, then appended ones, then zeros, that no token reads, up to `padded`.
struct TokenLayout {
  int64_t grid = 0, appended = 0, padded = 0;
  int64_t tokens() const { return grid + appended; }
};

struct LatentState {
  TokenLayout layout;
  Tensor z;  // [layout.padded, channels] f32: noise in, clean latents out
  // What a prediction is blended with: x0 = mask·x0 + (1 − mask)·clean (docs/model.md "Masks"). A token's noise level
  // is mask·sigma.
  Tensor clean;             // [layout.tokens(), channels] f32; read if there is a mask
  std::vector<float> mask;  // [layout.tokens()], 0..1; empty: 1
  // z is clean and stays: its noise level is 0, it has no mask, and it still gives keys and values to the other
  // modality.
  bool frozen = false;
};

// Distinct values of a mask in order of appearance, and which one each token has.
struct DistinctMask {
  std::vector<float> values;  // padded with the last one to a power of two, so that few shapes of graphs occur
  std::vector<int32_t> row;   // empty if there is one value
};
DistinctMask Distinguish(const std::vector<float>& mask);

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_LATENT_STATE_H_
