#include "engine/config/checkpoint_parts.h"

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/config/family_defaults.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

struct NeededPart {
  std::string_view component, words, argument;
};
constexpr NeededPart kNeeded[] = {
    {"transformer", "transformer", "FILE"},
    {"connectors", "connectors (they are in the transformer's file)", "FILE"},
    {"text_projection", "text projection (it is in the transformer's file or, of LTX-2.5, in the text encoder's)",
     "text_encoder=FILE"},
    {"vae", "video VAE", "video_vae=FILE"},
    {"audio_vae", "audio VAE", "audio_vae=FILE"},
    {"vocoder", "vocoder (it is in the audio VAE's file)", "audio_vae=FILE"},
};

absl::Status CheckVersions(const Checkpoint& checkpoint) {
  KINORA_ASSIGN_OR_RETURN(const std::string family, FamilyOfVersion(checkpoint.model_version()));
  if (family.empty()) return absl::OkStatus();
  for (const ComponentFile& file : checkpoint.files()) {
    const std::string version = file.MetadataOf("model_version");
    KINORA_ASSIGN_OR_RETURN(const std::string of_file, FamilyOfVersion(version));
    if (of_file.empty() || (of_file == kLtx20) == (family == kLtx20)) continue;
    return absl::InvalidArgumentError(Cat(file.path, ": model_version ", version, ", but the transformer's is ",
                                          checkpoint.model_version(), "; their latents differ"));
  }
  return absl::OkStatus();
}

// Returns the text under `key` of a JSON object; "" if there is none.
absl::StatusOr<std::string> TextIn(const std::string& json, std::string_view key, const std::string& what) {
  if (json.empty()) return "";
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonText(json, what));
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::Status CheckTextEncoder(const Checkpoint& checkpoint) {
  const ComponentFile* const transformer = checkpoint.FileOf("transformer");
  const ComponentFile* const text = checkpoint.FileOf("text_encoder");
  if (transformer == nullptr || text == nullptr || checkpoint.model_version().empty()) return absl::OkStatus();
  const std::string key = "gemma_source_checkpoint";
  KINORA_ASSIGN_OR_RETURN(const std::string wanted, TextIn(transformer->MetadataOf(key), "gemma_version",
                                                           Cat(transformer->path, ": metadata ", key)));
  const std::string what = Cat(text->path, ": the text encoder's configuration");
  KINORA_ASSIGN_OR_RETURN(const std::string given, TextIn(text->config, "gemma_version", what));
  if (!wanted.empty()) {
    if (given == wanted) return absl::OkStatus();
    return absl::InvalidArgumentError(Cat("model text_encoder: ", text->path, ": gemma_version is \"", given,
                                          "\", but ", transformer->path, " was trained with \"", wanted, "\""));
  }
  KINORA_ASSIGN_OR_RETURN(const std::string family, FamilyOfVersion(checkpoint.model_version()));
  if (family == kLtx25) {
    if (given.empty()) return absl::OkStatus();  // neither file says
    return absl::InvalidArgumentError(Cat("model: ", transformer->path, ": its metadata lacks ", key,
                                          ", so that nothing tells whether the text encoder with gemma_version \"",
                                          given, "\" is its own"));
  }
  KINORA_ASSIGN_OR_RETURN(const std::string type, TextIn(text->config, "model_type", what));
  if (type.starts_with("gemma3")) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("model text_encoder: ", text->path, ": model_type is \"", type, "\", but ",
                                        family, " was trained with gemma3"));
}

}  // namespace

absl::Status CheckPartsArePresent(const Checkpoint& checkpoint, bool video) {
  for (const NeededPart& part : kNeeded) {
    if (checkpoint.HasComponent(part.component) || (part.component == "vae" && !video)) continue;
    return absl::InvalidArgumentError(Cat("model: ", absl::StrJoin(checkpoint.paths(), ", "), ": no ", part.words,
                                          "; give its file with --model ", part.argument));
  }
  return absl::OkStatus();
}

absl::Status CheckPartsBelongTogether(const Checkpoint& checkpoint) {
  KINORA_RETURN_IF_ERROR(CheckVersions(checkpoint));
  return CheckTextEncoder(checkpoint);
}

}  // namespace kinora
