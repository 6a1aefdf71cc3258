#include "engine/weights/model_files.h"

#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/utf8.h"

namespace kinora {
namespace {

absl::Status BadArgument(std::string_view argument, std::string_view why) {
  return absl::InvalidArgumentError(Cat("--model ", argument, ": ", why));
}

absl::Status ParseDistilledLora(std::string_view value, ModelFiles* files) {
  const size_t colon = value.rfind(':');
  double strength = 0;
  if (colon != std::string_view::npos && absl::SimpleAtod(AbslView(value.substr(colon + 1)), &strength)) {
    if (!(strength >= -100 && strength <= 100)) return BadArgument(value, "strength must lie in -100..100");
    files->distilled_lora_strength = strength;
    value = value.substr(0, colon);
  }
  files->distilled_lora = value;
  return absl::OkStatus();
}

absl::Status ParseNamed(std::string_view argument, std::string_view name, std::string_view value, ModelFiles* files) {
  if (value.empty()) return BadArgument(argument, "a value is missing after =");
  const std::pair<std::string_view, std::string ModelFiles::*> paths[] = {
      {"text_encoder", &ModelFiles::text_encoder},
      {"video_vae", &ModelFiles::video_vae},
      {"audio_vae", &ModelFiles::audio_vae},
      {"duration_head", &ModelFiles::duration_head},
      {"spatial_upsampler", &ModelFiles::spatial_upsampler},
      {"temporal_upsampler", &ModelFiles::temporal_upsampler}};
  for (const auto& [known, member] : paths) {
    if (name != known) continue;
    if (!(files->*member).empty()) return BadArgument(argument, "given twice");
    files->*member = value;
    return absl::OkStatus();
  }
  if (name == "distilled_lora") {
    if (!files->distilled_lora.empty()) return BadArgument(argument, "given twice");
    return ParseDistilledLora(value, files);
  }
  if (name == "lora") {
    const size_t colon = value.find(':');
    if (colon == 0 || colon == std::string_view::npos || colon + 1 == value.size()) {
      return BadArgument(argument, "expected lora=ID:FILE");
    }
    if (FindInvalidUtf8(value.substr(0, colon)) >= 0) return BadArgument("lora", "the ID is not UTF-8");
    files->loras.push_back({std::string(value.substr(0, colon)), std::string(value.substr(colon + 1))});
    return absl::OkStatus();
  }
  if (name == "kind") {
    if (value != "dev" && value != "distilled") return BadArgument(argument, "kind is dev or distilled");
    files->kind = value == "dev" ? ModelFiles::Kind::kDev : ModelFiles::Kind::kDistilled;
    return absl::OkStatus();
  }
  return BadArgument(argument, Cat("unknown name ", name,
                                   "; text_encoder, video_vae, audio_vae, duration_head, spatial_upsampler, "
                                   "temporal_upsampler, distilled_lora, lora and kind are"));
}

}  // namespace

absl::StatusOr<ModelFiles> ModelFiles::Parse(absl::Span<const std::string> arguments) {
  ModelFiles files;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    // A path may contain "=", but only after its first slash.
    if (equals == std::string::npos || argument.find('/') < equals) {
      if (argument.empty()) return BadArgument("\"\"", "an empty path");
      files.paths.push_back(argument);
      continue;
    }
    const std::string_view view = argument;
    KINORA_RETURN_IF_ERROR(ParseNamed(view, view.substr(0, equals), view.substr(equals + 1), &files));
  }
  if (files.paths.empty()) return absl::InvalidArgumentError("--model: no path given");
  return files;
}

std::vector<std::string> ModelFiles::parts() const {
  std::vector<std::string> paths;
  if (!distilled_lora.empty()) paths.push_back(distilled_lora);
  for (const Lora& lora : loras) paths.push_back(lora.path);
  return paths;
}

}  // namespace kinora
