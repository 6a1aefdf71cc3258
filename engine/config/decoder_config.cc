#include "engine/config/decoder_config.h"

#include <algorithm>

#include "engine/config/encoder_config.h"

namespace kinora {

DiffusionDecoderConfig::Extents DiffusionDecoderConfig::factor() const {
  Extents product = {1, 1, 1};
  for (const Stage& stage : stages) {
    for (size_t axis = 0; axis < product.size(); ++axis) product[axis] *= stage.stride[axis];
  }
  return product;
}

DiffusionDecoderConfig::Extents DiffusionDecoderConfig::SmallestLatent() const {
  Extents smallest = {1, 1, 1}, stride = {1, 1, 1};
  const auto fit = [&](const Stage& stage) {
    for (size_t axis = 0; axis < smallest.size(); ++axis) {
      smallest[axis] = std::max(smallest[axis], (stage.window[axis] + stride[axis] - 1) / stride[axis]);
      stride[axis] *= stage.stride[axis];
    }
  };
  for (const Stage& stage : stages) fit(stage);
  fit(denoiser);
  return smallest;
}

int64_t VideoDecoderConfig::time_factor() const {
  if (diffusion) return diffusion->factor()[0];
  int64_t factor = 1;
  for (const VideoDecoderBlock& block : blocks) factor *= block.stride[0];
  return factor;
}

int64_t VideoDecoderConfig::space_factor() const {
  if (diffusion) return patch_size * diffusion->factor()[1];
  int64_t factor = patch_size;
  for (const VideoDecoderBlock& block : blocks) factor *= block.stride[1];
  return factor;
}

int64_t VideoEncoderConfig::time_factor() const {
  int64_t factor = 1;
  for (const VideoEncoderBlock& block : blocks) factor *= block.stride[0];
  return factor;
}

int64_t VideoEncoderConfig::space_factor() const {
  int64_t factor = patch_size;
  for (const VideoEncoderBlock& block : blocks) factor *= block.stride[1];
  return factor;
}

}  // namespace kinora
