// Reads ModelConfig from what a checkpoint says of itself: the Lightricks metadata, or the config.json files of a
// diffusers folder; the text encoder's from its own config.json. Nothing is taken from file names. Unknown values of
// fields that change the maths, and values out of bounds, are InvalidArgument naming the field; the first 20 are
// listed. Absent fields take the reference implementation's defaults (ltx_core's configurators, diffusers'
// constructors).
#ifndef KINORA_ENGINE_MODEL_CONFIG_READER_H_
#define KINORA_ENGINE_MODEL_CONFIG_READER_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/config.h"
#include "engine/weights/checkpoint.h"

namespace kinora {

// Everything: reads, completes from tensor shapes what the metadata leaves out (the text encoder's number of states,
// registers, the vocoder's input width), validates, and compares with tensor shapes where that is cheap.
absl::StatusOr<ModelConfig> ReadModelConfig(const Checkpoint& checkpoint);

// The parts of it, without tensors. config: the JSON of the metadata key `config`.
absl::StatusOr<ModelConfig> ParseLightricksConfig(std::string_view config, std::string_view model_version);
// component -> config.json ("scheduler": scheduler_config.json). A component without one keeps the defaults.
absl::StatusOr<ModelConfig> ParseDiffusersConfigs(const std::map<std::string, std::string, std::less<>>& components);
// config.json of a Gemma-3 folder, whole (gemma3) or text only (gemma3_text).
absl::StatusOr<GemmaConfig> ParseGemmaConfig(std::string_view json);
// tokenizer_config.json -> rows of a prompt: model_max_length, at most kMaxPromptRows; these if the field is absent or
// the huge number that transformers writes for "unlimited".
absl::StatusOr<int64_t> ParsePromptRows(std::string_view tokenizer_config);

// "2.3.0", "2.3.rc1", "2.0" -> "ltx-2.3", "ltx-2.0"; empty stays empty. Unimplemented for generations that are not
// supported.
absl::StatusOr<std::string> FamilyOfVersion(std::string_view model_version);

// What must hold between fields: widths that meet, heads that divide, rates that agree.
absl::Status ValidateModelConfig(const ModelConfig& config);
// The few tensors whose shapes show that configuration and weights belong together. Components that the checkpoint
// lacks are skipped.
absl::Status CheckConfigAgainstTensors(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_CONFIG_READER_H_
