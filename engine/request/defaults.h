// A model's defaults for the absent fields of a request.
#ifndef KINORA_ENGINE_REQUEST_DEFAULTS_H_
#define KINORA_ENGINE_REQUEST_DEFAULTS_H_

#include "engine/request/model_description.h"

namespace kinora {

// Returns `asked` with every default of its recipe: sizes, rate, steps (for given or fixed sigmas, as many as they
// take), the crf of images, the bounds of a length that the model chooses, and in a guided recipe the guidance, STG
// blocks if STG is on, and the negative prompt if a term uses it. Guidance of an unguided recipe stays as requested. If
// `model` does not describe the recipe, sets only the recipe.
GenerationRequest WithDefaults(const ModelDescription& model, const GenerationRequest& asked);

// The limits of the length that the model chooses for a request with auto_length, defaults filled in and valid.
LengthLimits LimitsOfLength(const RecipeDescription& recipe, const GenerationRequest& request);

// Returns the frames to assume for a request with FramesAreUnknown, defaults filled in and valid: the most that its
// auto_length allows, or the recipe's default for a sound that is not read yet.
int32_t AssumedFrames(const RecipeDescription& recipe, const GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_DEFAULTS_H_
