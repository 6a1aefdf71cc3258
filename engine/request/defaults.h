// What a model sets where a request says nothing.
#ifndef KINORA_ENGINE_REQUEST_DEFAULTS_H_
#define KINORA_ENGINE_REQUEST_DEFAULTS_H_

#include "engine/request/model_description.h"

namespace kinora {

// The H.264 pass of an image up to LTX-2.3 (ltx_pipelines/utils/args.py).
inline constexpr int32_t kImageCrf = 33;

// `asked` with every default of its recipe: sizes, rate, steps (of given or fixed sigmas: their number), the crf of
// images, and in a guided recipe guidance, STG blocks where STG is on, and the negative prompt where a term uses one. A
// recipe without guidance has none afterwards that was not asked for. A recipe that `model` does not describe: nothing
// but its name.
GenerationRequest WithDefaults(const ModelDescription& model, const GenerationRequest& asked);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_DEFAULTS_H_
