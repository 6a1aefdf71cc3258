#include "engine/config/config_reader.h"

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/checkpoint_parts.h"
#include "engine/config/family_defaults.h"

namespace kinora {
namespace {

// Sets values that the metadata omits from tensor shapes. The validation that follows rejects absurd dimensions of
// damaged files.
void CompleteFromTensors(const Checkpoint& checkpoint, ModelConfig* model) {
  const auto shape = [&](std::string_view name) {
    const Checkpoint::Entry* entry = checkpoint.Find(name);
    return entry == nullptr ? Shape() : entry->tensor->shape;
  };
  ConnectorConfig& c = model->connector;
  if (model->gemma) {  // like the reference, which ignores caption_channels here
    c.text_width = model->gemma->width;
    c.text_states = model->gemma->layers + 1;
  } else if (const Shape projection = shape(c.per_modality_projections ? "text_projection.video_aggregate_embed.weight"
                                                                       : "text_projection.aggregate_embed.weight");
             projection.rank() == 2 && projection[1] % c.text_width == 0) {
    c.text_states = projection[1] / c.text_width;
  }
  for (auto [stream, name] : {std::pair(&c.video, "video"), std::pair(&c.audio, "audio")}) {
    const Shape registers = shape(Cat("connectors.", name, "_embeddings_connector.learnable_registers"));
    if (registers.rank() == 2) stream->registers = registers[0];
  }
  const auto input_width = [&](GeneratorConfig* generator, std::string_view name) {
    const Shape first = shape(name);
    if (first.rank() == 3) generator->in_channels = first[1];
  };
  input_width(&model->vocoder.base,
              model->vocoder.extension ? "vocoder.vocoder.conv_pre.weight" : "vocoder.conv_pre.weight");
  if (model->vocoder.extension)
    input_width(&model->vocoder.extension->generator, "vocoder.bwe_generator.conv_pre.weight");
}

// Marks encoders as unavailable if the configuration has them but the files do not.
void MissEncoders(const Checkpoint& checkpoint, ModelConfig* model) {
  const auto miss = [&](std::string_view component, std::string& unavailable) {
    if (!unavailable.empty() || checkpoint.Find(Cat(component, ".encoder.conv_in.conv.weight")) != nullptr) return;
    unavailable = Cat(component, ".encoder: the files do not hold it");
  };
  miss("vae", model->video_encoder.unavailable);
  miss("audio_vae", model->audio_encoder.unavailable);
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const Checkpoint& checkpoint) {
  const bool diffusers = checkpoint.component_configs().size() > checkpoint.component_configs().count("text_encoder");
  if (!diffusers && checkpoint.config().empty()) {
    return absl::InvalidArgumentError(Cat(checkpoint.paths().front(),
                                          ": no configuration: neither a `config` in the metadata nor "
                                          "config.json files"));
  }
  if (diffusers && !checkpoint.config().empty()) {
    return absl::InvalidArgumentError(
        Cat(checkpoint.paths().front(), ": two configurations: config.json files and metadata"));
  }
  KINORA_RETURN_IF_ERROR(CheckPartsBelongTogether(checkpoint));
  KINORA_ASSIGN_OR_RETURN(ModelConfig model,
                          diffusers ? ParseDiffusersConfigs(checkpoint.component_configs())
                                    : ParseLightricksConfig(checkpoint.config(), checkpoint.model_version()));
  if (const auto it = checkpoint.component_configs().find("text_encoder"); it != checkpoint.component_configs().end()) {
    KINORA_ASSIGN_OR_RETURN(model.gemma, ParseGemmaConfig(it->second));
  }
  if (!checkpoint.tokenizer_config().empty()) {
    KINORA_ASSIGN_OR_RETURN(model.connector.rows, ParsePromptRows(checkpoint.tokenizer_config()));
  }
  if (const ComponentFile* const vae = checkpoint.FileOf("vae")) {
    model.generation.image_crf = ImageCrfOf(vae->MetadataOf("model_version"));
  }
  if (const ComponentFile* const head = checkpoint.FileOf("duration_head")) {
    const std::string config = head->MetadataOf("config");
    KINORA_ASSIGN_OR_RETURN(model.duration_head, ParseDurationHeadConfig(config.empty() ? "{}" : config));
  }
  CompleteFromTensors(checkpoint, &model);
  MissEncoders(checkpoint, &model);
  KINORA_RETURN_IF_ERROR(ValidateModelConfig(model));
  KINORA_RETURN_IF_ERROR(CheckConfigAgainstTensors(model, checkpoint));
  return model;
}

}  // namespace kinora
