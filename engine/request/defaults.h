// A model's defaults for the absent fields of a request.
#ifndef KINORA_ENGINE_REQUEST_DEFAULTS_H_
#define KINORA_ENGINE_REQUEST_DEFAULTS_H_

#include "engine/request/model_description.h"

namespace kinora {

// CRF of the H.264 pass of an image, up to LTX-2.3 (ltx_pipelines/utils/args.py).
inline constexpr int32_t kImageCrf = 33;

// Returns `asked` with every default of its recipe: sizes, rate, steps (for given or fixed sigmas, as many as they
// take), the crf of images, and in a guided recipe the guidance, STG blocks if STG is on, and the negative prompt if a
// term uses it. Guidance of an unguided recipe stays as requested. If `model` does not describe the recipe, sets only
// the recipe.
GenerationRequest WithDefaults(const ModelDescription& model, const GenerationRequest& asked);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_DEFAULTS_H_
