// Configuration of a latent upsampler, from the metadata of its own file. Same rules as in model_config.h.
#ifndef KINORA_ENGINE_CONFIG_UPSAMPLER_CONFIG_H_
#define KINORA_ENGINE_CONFIG_UPSAMPLER_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tensor/tensor.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

struct UpsamplerConfig {
  static constexpr int64_t kGroups = 32;  // of every norm

  int64_t latent_channels = 128;
  int64_t mid_channels = 512;
  int64_t blocks = 4;     // residual blocks before the upsampling, and as many after it
  bool over_time = true;  // "dims" 3: convolutions and norms cover the whole clip; 2: each frame separately
  bool rational = false;  // spatial upsampling may be followed by a filter; also affects the names of its tensors
  int space_up = 2;       // sides become ⌈space_up · side / space_down⌉
  int space_down = 1;     // greater than 1 only if rational
  int time_up = 1;        // 2: f latent frames become 2f − 1

  int64_t parts() const { return int64_t{1} * space_up * space_up * time_up; }  // outputs of depth-to-space per cell
  // latent: [frames, height, width, latent_channels]
  Shape OutputShape(const Shape& latent) const;
  // Returns the shape whose OutputShape is `wanted`. If there is none, fails with InvalidArgument, naming num_frames,
  // height or width (in latent cells) and the required multiple.
  absl::StatusOr<Shape> InputShape(const Shape& wanted) const;
  friend bool operator==(const UpsamplerConfig&, const UpsamplerConfig&) = default;
};

// json: metadata `config` of Lightricks' file, or config.json of diffusers' latent_upsampler/. what: for messages.
// Fails with InvalidArgument, naming the fields.
absl::StatusOr<UpsamplerConfig> ParseUpsamplerConfig(std::string_view json, std::string_view what);
// component: spatial_upsampler or temporal_upsampler. Fails with NotFound if the checkpoint has none.
absl::StatusOr<UpsamplerConfig> ReadUpsamplerConfig(const Checkpoint& checkpoint, std::string_view component);

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_UPSAMPLER_CONFIG_H_
