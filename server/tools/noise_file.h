// The initial noise of --noise.
#ifndef KINORA_SERVER_TOOLS_NOISE_FILE_H_
#define KINORA_SERVER_TOOLS_NOISE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/request/request.h"

namespace kinora {

// Reads video_noise and audio_noise from a safetensors file, widening bf16, f16 and f8; other tensors are ignored, also
// those of second stages and appended tokens, which no recipe that works today has. NotFound or InvalidArgument naming
// the file and the tensor: a wrong number of dimensions, another dtype, a value that is not finite, neither of the two.
// Sizes are the pipeline's to check: they depend on the model.
absl::StatusOr<GivenNoise> ReadNoiseFile(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_NOISE_FILE_H_
