// The initial noise of --noise.
#ifndef KINORA_SERVER_TOOLS_NOISE_FILE_H_
#define KINORA_SERVER_TOOLS_NOISE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/pipeline/request.h"

namespace kinora {

// Reads video_noise, audio_noise, video_noise_appended and their *_stage2 from a safetensors file, widening bf16 and
// f16; other tensors are ignored. NotFound or InvalidArgument naming the file and the tensor: a wrong number of
// dimensions, another dtype, a value that is not finite, none of the six. Sizes are the pipeline's to check: they
// depend on the model.
absl::StatusOr<GivenNoise> ReadNoiseFile(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_NOISE_FILE_H_
