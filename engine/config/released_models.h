// Configurations of the released models, for planning without their files: the metadata of the single files
// (released/*.json) together with their text encoder, Gemma-3-12B or, in LTX-2.5, Gemma-4-12B. The files of LTX-2.5 are
// gated: its configuration is that of 2.3 with the differences that were reported of its headers, with its duration
// head and its spatial upsampler, so that all its recipes can be planned.
#ifndef KINORA_ENGINE_CONFIG_RELEASED_MODELS_H_
#define KINORA_ENGINE_CONFIG_RELEASED_MODELS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/config/model_config.h"

namespace kinora {

// Returns "ltx-2-19b", "ltx-2.3-22b" and "ltx-2.5-22b", prefixes of the file names, and
// "ltx-2.5-22b-diffusion-decoder", which has the other video VAE's file. dev and distilled share a configuration.
std::vector<std::string> ReleasedModelNames();

// Returns the configuration that ReadModelConfig returns for the files. Fails with NotFound, listing the known names.
absl::StatusOr<ModelConfig> ReleasedModelConfig(std::string_view name);

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_RELEASED_MODELS_H_
