// Finds which file holds which part of a model, and under which names: a Lightricks single file, the separate files of
// LTX-2.5, a folder with such files, a diffusers folder. Reads headers only.
#ifndef KINORA_ENGINE_WEIGHTS_COMPONENT_FILES_H_
#define KINORA_ENGINE_WEIGHTS_COMPONENT_FILES_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weights/model_files.h"
#include "engine/weights/safetensors.h"

namespace kinora {

// A tensor of a model.
struct TensorEntry {
  const SafetensorsFile* file = nullptr;
  const TensorInfo* tensor = nullptr;
};

// A file, or the shards of an index.
struct ComponentFile {
  // How the model got this file: from --model NAME=, as a path, or from a folder. Where files of several sources hold a
  // component, the first source in this order supplies it.
  enum class Source { kNamed, kGiven, kFound } source = Source::kGiven;
  std::string path;
  std::vector<std::shared_ptr<const SafetensorsFile>> shards{};
  // By canonical names (checkpoint.h); only those that the model takes from this file.
  std::vector<std::pair<std::string, TensorEntry>> tensors{};
  std::set<std::string, std::less<>> components{};  // of `tensors`
  // The component that `config` describes, which is the text of a config.json or of the metadata. Empty: the metadata
  // has a `config` with a section for each component.
  std::string config_of{}, config{};
  std::string scheduler{};  // text of the scheduler_config.json beside a diffusers transformer

  // Returns the value of `key` in the metadata of the first shard that has it; "" if none has.
  std::string MetadataOf(const std::string& key) const;
};

// Fails with NotFound, Unavailable or InvalidArgument, naming the file: if it is no part of a model, or a LoRA; if it
// does not hold the part that it was named as; if several files of a folder hold one component and neither files.kind
// nor this build's abilities leave one.
absl::StatusOr<std::vector<ComponentFile>> FindComponentFiles(const ModelFiles& files);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_COMPONENT_FILES_H_
