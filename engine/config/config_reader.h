// Reads ModelConfig from the Lightricks metadata or from the config.json files of a diffusers folder, and the text
// encoder's part from its own config.json. File names do not matter. Unknown values of fields that change the maths,
// and values out of bounds, fail with InvalidArgument, which lists the first 20 such fields. Absent fields get the
// reference implementation's defaults (ltx_core's configurators, diffusers' constructors).
#ifndef KINORA_ENGINE_CONFIG_CONFIG_READER_H_
#define KINORA_ENGINE_CONFIG_CONFIG_READER_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/config/model_config.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

// Reads and validates the whole configuration. Values that the metadata omits (the text encoder's number of states,
// registers, the vocoder's input width) come from tensor shapes. Compares the result with a few tensor shapes.
absl::StatusOr<ModelConfig> ReadModelConfig(const Checkpoint& checkpoint);

// The steps of ReadModelConfig. config: the JSON of the metadata key `config`.
absl::StatusOr<ModelConfig> ParseLightricksConfig(std::string_view config, std::string_view model_version);
// components: maps a component to its config.json ("scheduler": scheduler_config.json). Others keep the defaults.
absl::StatusOr<ModelConfig> ParseDiffusersConfigs(const std::map<std::string, std::string, std::less<>>& components);
// json: config.json of a Gemma-3 folder, complete (gemma3) or text only (gemma3_text).
absl::StatusOr<GemmaConfig> ParseGemmaConfig(std::string_view json);
// Returns the rows of a prompt: model_max_length of tokenizer_config.json, at most kMaxPromptRows; kMaxPromptRows if
// the field is absent or the huge number that transformers writes for "unlimited".
absl::StatusOr<int64_t> ParsePromptRows(std::string_view tokenizer_config);

// Checks constraints between fields: equal widths, divisible heads, consistent rates.
absl::Status ValidateModelConfig(const ModelConfig& config);
// Checks that configuration and weights belong together, by the shapes of a few tensors. Skips components that the
// checkpoint does not have.
absl::Status CheckConfigAgainstTensors(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_CONFIG_READER_H_
