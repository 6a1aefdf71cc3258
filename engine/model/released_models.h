// The configurations of the released models, for plans without their files: what the metadata of the single files says
// (released/*.json) with the text encoder that they are used with, Gemma-3-12B.
#ifndef KINORA_ENGINE_MODEL_RELEASED_MODELS_H_
#define KINORA_ENGINE_MODEL_RELEASED_MODELS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/config.h"

namespace kinora {

// "ltx-2-19b", "ltx-2.3-22b": what the files' names begin with. dev and distilled have one configuration.
std::vector<std::string> ReleasedModelNames();

// As ReadModelConfig would have it of the files. NotFound, with the names there are.
absl::StatusOr<ModelConfig> ReleasedModelConfig(std::string_view name);

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_RELEASED_MODELS_H_
