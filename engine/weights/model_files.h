// The arguments of --model, of every program that loads a model.
#ifndef KINORA_ENGINE_WEIGHTS_MODEL_FILES_H_
#define KINORA_ENGINE_WEIGHTS_MODEL_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace kinora {

// `paths` holds .safetensors and .index.json files, diffusers folders, and folders that hold a model's separate files.
// A named part replaces that of a path.
struct ModelFiles {
  struct Lora {
    std::string id;
    std::string path;
  };
  std::vector<std::string> paths{};
  std::string text_encoder{};  // folder (config.json, weights, tokenizer), or a file with a text projection of its own
  std::string video_vae{}, audio_vae{};  // the second holds the vocoder, too
  std::string duration_head{};           // chooses the length of a clip
  std::string spatial_upsampler{};  // Lightricks' file, or diffusers' latent_upsampler/ or the folder that holds it
  std::string temporal_upsampler{};
  std::string distilled_lora{};
  std::optional<double> distilled_lora_strength{};
  std::vector<Lora> loras{};
  enum class Kind { kUnknown, kDev, kDistilled } kind = Kind::kUnknown;

  // Returns the paths of the LoRA files, which are not part of the checkpoint.
  std::vector<std::string> parts() const;

  // Parses arguments of the form PATH or NAME=VALUE: text_encoder=FOLDER|FILE, video_vae=FILE, audio_vae=FILE,
  // duration_head=FILE, spatial_upsampler=FILE, temporal_upsampler=FILE, distilled_lora=FILE[:STRENGTH], lora=ID:FILE,
  // kind=dev|distilled. Fails with InvalidArgument naming the argument.
  static absl::StatusOr<ModelFiles> Parse(absl::Span<const std::string> arguments);
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_MODEL_FILES_H_
