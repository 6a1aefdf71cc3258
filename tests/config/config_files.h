// The released models' configurations in both layouts (engine/config/released, tests/config/data), and damaged copies
// of them.
#ifndef KINORA_TESTS_CONFIG_CONFIG_FILES_H_
#define KINORA_TESTS_CONFIG_CONFIG_FILES_H_

#include <map>
#include <string>

#include "engine/config/config_reader.h"
#include "nlohmann/json.hpp"
#include "tests/testing/temporary_directory.h"

namespace kinora {

// "lightricks_2.0", "diffusers_2.3", …
inline nlohmann::json ReadConfigFile(const std::string& name) {
  const char* const folder = name.starts_with("lightricks_") ? "/engine/config/released/" : "/tests/config/data/";
  return nlohmann::json::parse(ReadFile(KINORA_SOURCE_DIR + (folder + name) + ".json"));
}

// Lightricks: {model_version, config}; diffusers: {component: config}.
inline absl::StatusOr<ModelConfig> ParseConfig(const nlohmann::json& json) {
  if (json.contains("config"))
    return ParseLightricksConfig(json["config"].dump(), json["model_version"].get<std::string>());
  std::map<std::string, std::string, std::less<>> components;
  for (const auto& [component, config] : json.items()) components[component] = config.dump();
  return ParseDiffusersConfigs(components);
}

}  // namespace kinora

#endif  // KINORA_TESTS_CONFIG_CONFIG_FILES_H_
