// The files of one model as one flat namespace of canonical keys, for every layout (component_files.h). A canonical
// name is that of the Lightricks single file with the component's prefix replaced by "COMPONENT."; the components are
// transformer, connectors, text_projection, vae, audio_vae, vocoder, text_encoder, duration_head, spatial_upsampler,
// temporal_upsampler.
//   model.diffusion_model.patchify_proj.weight | transformer/ proj_in.weight   ->  transformer.patchify_proj.weight
// The rename tables are in key_tables.h.
#ifndef KINORA_ENGINE_WEIGHTS_CHECKPOINT_H_
#define KINORA_ENGINE_WEIGHTS_CHECKPOINT_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weights/component_files.h"
#include "engine/weights/model_files.h"
#include "engine/weights/safetensors.h"

namespace kinora {

class Checkpoint {
 public:
  // Reads headers only. Fails with NotFound, Unavailable or InvalidArgument, naming the file, also if two files define
  // the same key.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(const ModelFiles& files);
  // Makes a checkpoint of `tensors`, which have canonical names, at their offsets in `file`; they may overlap. For
  // measurements of a model larger than its file.
  static std::shared_ptr<const Checkpoint> Of(std::shared_ptr<const SafetensorsFile> file,
                                              std::vector<TensorInfo> tensors);

  using Entry = TensorEntry;
  const Entry* Find(std::string_view canonical) const;  // null if absent
  const std::map<std::string, Entry, std::less<>>& tensors() const { return tensors_; }
  bool HasComponent(std::string_view component) const;

  // The files that hold components, without the tensors: tensors() has those.
  const std::vector<ComponentFile>& files() const { return files_; }
  // Returns the first file that holds a tensor of the component; null if none does.
  const ComponentFile* FileOf(std::string_view component) const;
  // Lightricks metadata: the text of the `config` JSON, with the section of each component from its own file, and the
  // `model_version` of the transformer's file; empty in a diffusers folder.
  const std::string& config() const { return config_; }
  std::string model_version() const;
  // For a diffusers folder: component -> text of its config.json ("scheduler": scheduler_config.json). A text encoder's
  // config.json is "text_encoder" in every layout.
  const std::map<std::string, std::string, std::less<>>& component_configs() const { return component_configs_; }
  // spatial_upsampler, temporal_upsampler -> text of its configuration, for the upsamplers given.
  const std::map<std::string, std::string, std::less<>>& upsampler_configs() const { return upsampler_configs_; }
  // Path of the tokenizer.model, or else of the tokenizer.json; empty if the text encoder's folder and tokenizer/ in or
  // beside it have neither.
  const std::string& tokenizer_model() const { return tokenizer_model_; }
  // Text of the tokenizer_config.json beside the tokenizer model; empty if there is none.
  const std::string& tokenizer_config() const { return tokenizer_config_; }
  std::vector<std::string> paths() const;  // of all weight files, in the order opened
  // Returns "FILE: tensor NAME", with the tensor's name in the file, for messages; the canonical key if no file has it.
  std::string Describe(std::string_view canonical) const;

 private:
  Checkpoint() = default;
  absl::Status Add(ComponentFile file);
  absl::Status AddConfig(const ComponentFile& file);
  absl::Status FindTokenizer(const ComponentFile& text_encoder);

  std::vector<ComponentFile> files_;
  std::vector<TensorInfo> placed_;  // the argument of Of
  std::map<std::string, Entry, std::less<>> tensors_;
  std::string config_;
  std::map<std::string, std::string, std::less<>> component_configs_, upsampler_configs_;
  std::string tokenizer_model_, tokenizer_config_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_CHECKPOINT_H_
