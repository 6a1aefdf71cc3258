// Noise that a video decoder starts from.
#ifndef KINORA_ENGINE_MODEL_HOST_NOISE_H_
#define KINORA_ENGINE_MODEL_HOST_NOISE_H_

#include "absl/types/span.h"

namespace kinora {

// Standard normal values [colours, frames, height, width] in host memory.
struct HostNoise {
  absl::Span<const float> values{};
  bool pinned = false;  // from Backend::AllocateHost, on a device with its own memory
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_HOST_NOISE_H_
