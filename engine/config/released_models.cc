#include "engine/config/released_models.h"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/config_reader.h"
#include "engine/config/family_defaults.h"

namespace kinora {

// released/*.json, embedded by the build (cmake/EmbedFile.cmake)
extern const unsigned char kReleased20[];
extern const size_t kReleased20Size;
extern const unsigned char kReleased23[];
extern const size_t kReleased23Size;
extern const unsigned char kReleased25[];
extern const size_t kReleased25Size;
extern const unsigned char kReleased25DiffusionVae[];
extern const size_t kReleased25DiffusionVaeSize;

namespace {

struct Released {
  const char* name;
  std::string_view json;   // {"model_version", "config"} and, if the text encoder is not Gemma-3, "gemma_config"
  std::string_view vae{};  // in place of config.vae
};

std::vector<Released> AllReleased() {
  const auto text = [](const unsigned char* bytes, size_t size) {
    return std::string_view(reinterpret_cast<const char*>(bytes), size);
  };
  return {{"ltx-2-19b", text(kReleased20, kReleased20Size)},
          {"ltx-2.3-22b", text(kReleased23, kReleased23Size)},
          {"ltx-2.5-22b", text(kReleased25, kReleased25Size)},
          {"ltx-2.5-22b-diffusion-decoder", text(kReleased25, kReleased25Size),
           text(kReleased25DiffusionVae, kReleased25DiffusionVaeSize)}};
}

// config.json of google/gemma-3-12b-it: every sixth layer attends globally.
GemmaConfig Gemma12B() {
  GemmaConfig gemma{.global_rope_factor = 8};
  for (int64_t layer = 1; layer <= gemma.layers; ++layer) gemma.sliding.push_back(layer % 6 != 0);
  return gemma;
}

}  // namespace

std::vector<std::string> ReleasedModelNames() {
  std::vector<std::string> names;
  for (const Released& model : AllReleased()) names.emplace_back(model.name);
  return names;
}

absl::StatusOr<ModelConfig> ReleasedModelConfig(std::string_view name) {
  for (const Released& model : AllReleased()) {
    if (model.name != name) continue;
    nlohmann::json json = nlohmann::json::parse(model.json);
    if (!model.vae.empty()) json["config"]["vae"] = nlohmann::json::parse(model.vae);
    KINORA_ASSIGN_OR_RETURN(ModelConfig config, ParseLightricksConfig(json.at("config").dump(),
                                                                      json.at("model_version").get<std::string>()));
    config.generation.image_crf = ImageCrfOf(config.version);
    if (config.family == kLtx25) {
      config.duration_head = DurationHeadConfig();
      config.spatial_upsampler = UpsamplerConfig{.mid_channels = 1024};
    }
    config.gemma = Gemma12B();
    if (json.contains("gemma_config")) {
      KINORA_ASSIGN_OR_RETURN(config.gemma, ParseGemmaConfig(json.at("gemma_config").dump()));
    }
    KINORA_RETURN_IF_ERROR(ValidateModelConfig(config));
    return config;
  }
  return absl::NotFoundError(
      Cat(name, ": no released model of this name; there are ", absl::StrJoin(ReleasedModelNames(), ", ")));
}

}  // namespace kinora
