// What others must know of a model to check a request without it: recipes, limits, defaults. Depends on no engine
// header.
#ifndef KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_
#define KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/request/request.h"

namespace kinora {

struct ModelDescription {
  std::string family;           // "ltx-2.0", "ltx-2.3"
  std::string kind;             // "dev", "distilled" or empty if neither the files nor the caller say
  std::vector<Recipe> recipes;  // that this build can run
  int32_t size_multiple = 32;   // of width and height, pixels
  int32_t frame_multiple = 8;   // frames: a multiple of it, plus 1
  int32_t max_width = 0, max_height = 0, max_frames = 0;
  // Of the video latent: (frames − 1)/frame_multiple + 1 by height/size_multiple by width/size_multiple; 0: no limit.
  // What fits the reserved memory, found along clips of growing length, then size; Generate checks each request's own
  // plan.
  int64_t max_tokens = 0;
  int32_t layers = 0;  // transformer blocks: STG blocks lie below it
  std::vector<int32_t> default_stg_blocks;
  std::vector<double> distilled_sigmas;  // of DISTILLED: its noise levels, the last 0
  std::string default_negative_prompt;
  // width, height, num_frames, frame_rate, num_inference_steps (dev) and guidance of ONE_STAGE.
  GenerationRequest defaults;
};

// The request with every default filled in: recipe, sizes, rate, steps or sigmas' number, guidance, negative prompt,
// STG blocks. InvalidArgument naming the field and the nearest valid value; Unimplemented "FIELD: not available yet"
// for what is valid in the API and cannot be computed by this build.
absl::StatusOr<GenerationRequest> ResolveRequest(const ModelDescription& model, const GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_
