// Reads the file of --noise.
#ifndef KINORA_SERVER_RENDER_NOISE_FILE_H_
#define KINORA_SERVER_RENDER_NOISE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/request/request.h"

namespace kinora {

// Reads those tensors of a safetensors file that NoiseNames lists and those of the decoder's draws, widening bf16, f16
// and f8, and ignores the others. NotFound or InvalidArgument, naming the file and the tensor: an unsupported dtype, a
// value that is not finite, no noise tensor. The pipeline checks the shapes, which depend on model and request.
absl::StatusOr<GivenNoise> ReadNoiseFile(const std::string& path);

}  // namespace kinora

#endif  // KINORA_SERVER_RENDER_NOISE_FILE_H_
