#include "engine/weights/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/json_text.h"
#include "engine/weights/key_tables.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

// Returns the component that a section of the metadata's config describes; "" if it is not known.
std::string_view ComponentOfSection(std::string_view section) {
  if (section == "scheduler" || section == "generation") return "transformer";
  for (const std::string_view component : {"transformer", "vae", "audio_vae", "vocoder", "duration_head"}) {
    if (section == component) return component;
  }
  return "";
}

// Adds the sections of a file's config that describe its components. Fails if another file says otherwise.
absl::StatusOr<std::string> MergeConfigs(const std::string& known, const ComponentFile& file, const std::string& more) {
  const std::string what = Cat(file.path, ": metadata config");
  KINORA_ASSIGN_OR_RETURN(nlohmann::json sections, ParseJsonText(more, what));
  if (!sections.is_object()) return absl::InvalidArgumentError(Cat(what, ": not an object"));
  nlohmann::json merged = nlohmann::json::object();
  if (!known.empty()) {
    KINORA_ASSIGN_OR_RETURN(merged, ParseJsonText(known, what));
  }
  for (const auto& [name, section] : sections.items()) {
    const std::string_view component = ComponentOfSection(name);
    if (section.is_null() || (!component.empty() && !file.components.contains(component))) continue;
    if (merged.contains(name) && merged[name] != section) {
      return absl::InvalidArgumentError(Cat(what, ".", name, ": another file of the model says otherwise"));
    }
    merged[name] = section;
  }
  return merged.dump();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const ModelFiles& files) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  KINORA_ASSIGN_OR_RETURN(std::vector<ComponentFile> found, FindComponentFiles(files));
  for (ComponentFile& file : found) KINORA_RETURN_IF_ERROR(checkpoint->Add(std::move(file)));
  return checkpoint;
}

std::shared_ptr<const Checkpoint> Checkpoint::Of(std::shared_ptr<const SafetensorsFile> file,
                                                 std::vector<TensorInfo> tensors) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->placed_ = std::move(tensors);
  for (const TensorInfo& tensor : checkpoint->placed_) checkpoint->tensors_[tensor.name] = {file.get(), &tensor};
  checkpoint->files_.push_back({.path = file->path(), .shards = {std::move(file)}});
  return checkpoint;
}

absl::Status Checkpoint::Add(ComponentFile file) {
  KINORA_RETURN_IF_ERROR(AddConfig(file));
  for (auto& [key, entry] : std::exchange(file.tensors, {})) {
    const auto [known, added] = tensors_.try_emplace(std::move(key), entry);
    if (added) continue;
    return absl::InvalidArgumentError(Cat(entry.file->path(), ": tensor ", entry.tensor->name,
                                          ": the model has it already: ", Describe(known->first)));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddConfig(const ComponentFile& file) {
  if (file.config_of.empty()) {
    for (const auto& shard : file.shards) {
      const auto config = shard->metadata().find("config");
      if (config == shard->metadata().end()) continue;
      KINORA_ASSIGN_OR_RETURN(config_, MergeConfigs(config_, file, config->second));
    }
    return absl::OkStatus();
  }
  if (!file.components.contains(file.config_of)) return absl::OkStatus();
  auto& configs = file.config_of.ends_with("_upsampler") ? upsampler_configs_ : component_configs_;
  if (!configs.emplace(file.config_of, file.config).second) {
    return absl::InvalidArgumentError(Cat(file.path, ": ", file.config_of, " is given twice"));
  }
  if (!file.scheduler.empty()) component_configs_["scheduler"] = file.scheduler;
  return file.config_of == "text_encoder" ? FindTokenizer(file) : absl::OkStatus();
}

// Looks in the folder of the weights, and in tokenizer/ in or beside it.
absl::Status Checkpoint::FindTokenizer(const ComponentFile& text_encoder) {
  const fs::path root = fs::path(text_encoder.path).parent_path();
  for (const fs::path& candidate :
       {root / "tokenizer.model", root / "tokenizer" / "tokenizer.model", root / ".." / "tokenizer" / "tokenizer.model",
        root / "tokenizer.json", root / "tokenizer" / "tokenizer.json", root / ".." / "tokenizer" / "tokenizer.json"}) {
    std::error_code error;
    if (!fs::is_regular_file(candidate, error)) continue;
    tokenizer_model_ = candidate.lexically_normal().string();
    const fs::path config = candidate.parent_path() / "tokenizer_config.json";
    if (!fs::is_regular_file(config, error)) break;
    KINORA_ASSIGN_OR_RETURN(tokenizer_config_, ReadTextFile(config.string()));
    break;
  }
  return absl::OkStatus();
}

const ComponentFile* Checkpoint::FileOf(std::string_view component) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const ComponentFile& file) { return file.components.contains(component); });
  return found == files_.end() ? nullptr : &*found;
}

std::string Checkpoint::model_version() const {
  const ComponentFile* const transformer = FileOf("transformer");
  return transformer == nullptr ? "" : transformer->MetadataOf("model_version");
}

const Checkpoint::Entry* Checkpoint::Find(std::string_view canonical) const {
  const auto it = tensors_.find(canonical);
  return it == tensors_.end() ? nullptr : &it->second;
}

bool Checkpoint::HasComponent(std::string_view component) const {
  const std::string start = Cat(component, ".");
  const auto it = tensors_.lower_bound(start);
  return it != tensors_.end() && it->first.starts_with(start);
}

std::vector<std::string> Checkpoint::paths() const {
  std::vector<std::string> paths;
  for (const ComponentFile& file : files_) {
    for (const auto& shard : file.shards) paths.push_back(shard->path());
  }
  return paths;
}

std::string Checkpoint::Describe(std::string_view canonical) const {
  const Entry* entry = Find(canonical);
  if (entry == nullptr) return std::string(canonical);
  return Cat(entry->file->path(), ": tensor ", entry->tensor->name);
}

}  // namespace kinora
