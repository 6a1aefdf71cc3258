// The files of one model as one flat namespace of canonical keys, for every layout: a diffusers folder, a Lightricks
// single file, or split files. A canonical name is that of the Lightricks single file with the component's prefix
// replaced by "COMPONENT."; the components are transformer, connectors, text_projection, vae, audio_vae, vocoder,
// text_encoder, spatial_upsampler, temporal_upsampler.
//   model.diffusion_model.patchify_proj.weight | transformer/ proj_in.weight   ->  transformer.patchify_proj.weight
// The rename tables are in key_tables.h.
#ifndef KINORA_ENGINE_WEIGHTS_CHECKPOINT_H_
#define KINORA_ENGINE_WEIGHTS_CHECKPOINT_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/weights/safetensors.h"

namespace kinora {

// The arguments of --model. `paths` holds diffusers folders, .safetensors files and .index.json files.
struct ModelFiles {
  struct Lora {
    std::string id;
    std::string path;
  };
  std::vector<std::string> paths{};
  std::string text_encoder{};       // folder (config.json, weights, tokenizer); overrides a diffusers folder's
  std::string spatial_upsampler{};  // Lightricks' file, or diffusers' latent_upsampler/ or the folder that holds it
  std::string temporal_upsampler{};
  std::string distilled_lora{};
  std::optional<double> distilled_lora_strength{};
  std::vector<Lora> loras{};
  enum class Kind { kUnknown, kDev, kDistilled } kind = Kind::kUnknown;

  // Returns the paths of the LoRA files, which are not part of the checkpoint.
  std::vector<std::string> parts() const;

  // Parses arguments of the form PATH or NAME=VALUE: text_encoder=DIR, spatial_upsampler=FILE, temporal_upsampler=FILE,
  // distilled_lora=FILE[:STRENGTH], lora=ID:FILE, kind=dev|distilled. Fails with InvalidArgument naming the argument.
  static absl::StatusOr<ModelFiles> Parse(absl::Span<const std::string> arguments);
};

class Checkpoint {
 public:
  // Reads headers only. Fails with NotFound, Unavailable or InvalidArgument, naming the file, also if two files define
  // the same key.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(const ModelFiles& files);
  // Makes a checkpoint of `tensors`, which have canonical names, at their offsets in `file`; they may overlap. For
  // measurements of a model larger than its file.
  static std::shared_ptr<const Checkpoint> Of(std::shared_ptr<const SafetensorsFile> file,
                                              std::vector<TensorInfo> tensors);

  struct Entry {
    const SafetensorsFile* file = nullptr;
    const TensorInfo* tensor = nullptr;
  };
  const Entry* Find(std::string_view canonical) const;  // null if absent
  const std::map<std::string, Entry, std::less<>>& tensors() const { return tensors_; }
  bool HasComponent(std::string_view component) const;

  // Lightricks metadata: the `config` JSON text and `model_version`; empty in a diffusers folder.
  const std::string& config() const { return config_; }
  const std::string& model_version() const { return model_version_; }
  // For a diffusers folder: component -> text of its config.json ("scheduler": scheduler_config.json). A text encoder's
  // config.json is "text_encoder" in every layout.
  const std::map<std::string, std::string, std::less<>>& component_configs() const { return component_configs_; }
  // spatial_upsampler, temporal_upsampler -> text of its configuration, for the upsamplers given.
  const std::map<std::string, std::string, std::less<>>& upsampler_configs() const { return upsampler_configs_; }
  // Path of the SentencePiece model; empty if the text encoder's folder and tokenizer/ in or beside it have none.
  const std::string& tokenizer_model() const { return tokenizer_model_; }
  // Text of the tokenizer_config.json beside the tokenizer model; empty if there is none.
  const std::string& tokenizer_config() const { return tokenizer_config_; }
  std::vector<std::string> paths() const;  // of all weight files, in the order opened
  // Returns "FILE: tensor NAME", with the tensor's name in the file, for messages; the canonical key if no file has it.
  std::string Describe(std::string_view canonical) const;

 private:
  Checkpoint() = default;
  absl::Status AddPath(const std::string& path);
  absl::Status AddFolder(const std::string& folder);
  absl::Status AddTextEncoder(const std::string& path);
  absl::Status AddUpsampler(std::string_view component, const std::string& path);
  absl::Status AddFiles(const std::string& path, std::string_view diffusers_component);
  absl::Status AddMetadata(const SafetensorsFile& file);

  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::vector<TensorInfo> placed_;  // the argument of Of
  std::map<std::string, Entry, std::less<>> tensors_;
  std::string config_;
  std::string model_version_;
  std::map<std::string, std::string, std::less<>> component_configs_, upsampler_configs_;
  std::string tokenizer_model_, tokenizer_config_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_CHECKPOINT_H_
