#include "engine/weights/checkpoint.h"

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/base/utf8.h"
#include "engine/weights/json_text.h"
#include "engine/weights/key_tables.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDiffusersComponents[] = {"transformer", "connectors", "vae", "audio_vae", "vocoder"};
constexpr std::string_view kWeightNames[] = {"diffusion_pytorch_model.safetensors.index.json",
                                             "diffusion_pytorch_model.safetensors", "model.safetensors.index.json",
                                             "model.safetensors"};

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}
bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Returns the index or the single file with a folder's weights.
absl::StatusOr<std::string> WeightsIn(const fs::path& folder) {
  for (std::string_view name : kWeightNames) {
    if (IsFile(folder / name)) return (folder / name).string();
  }
  return absl::NotFoundError(
      Cat(folder.string(), ": none of ",
          absl::StrJoin(kWeightNames, ", ", [](std::string* out, std::string_view name) { out->append(name); }),
          " is there"));
}

int EncoderLevels(const std::vector<std::shared_ptr<const SafetensorsFile>>& files) {
  constexpr std::string_view kStart = "encoder.down_blocks.";
  std::set<std::string_view> levels;
  for (const auto& file : files) {
    for (const TensorInfo& tensor : file->tensors()) {
      std::string_view name = tensor.name;
      if (!name.starts_with(kStart)) continue;
      name.remove_prefix(kStart.size());
      levels.insert(name.substr(0, name.find('.')));
    }
  }
  return levels.empty() ? 4 : static_cast<int>(levels.size());
}

// Merges the configurations of split files, each of which has the sections of its own components. Fails if two files
// disagree on a section.
absl::StatusOr<std::string> MergeConfigs(const std::string& known, const std::string& more, const std::string& path) {
  const std::string what = Cat(path, ": metadata config");
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json sections, ParseJsonText(more, what));
  if (!sections.is_object()) return absl::InvalidArgumentError(Cat(what, ": not an object"));
  if (known.empty() || known == more) return more;
  KINORA_ASSIGN_OR_RETURN(nlohmann::json merged, ParseJsonText(known, what));
  for (const auto& [name, section] : sections.items()) {
    if (merged.contains(name) && merged[name] != section) {
      return absl::InvalidArgumentError(Cat(what, ".", name, ": another file of the model says otherwise"));
    }
    merged[name] = section;
  }
  return merged.dump();
}

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
  return BadArgument(argument,
                     Cat("unknown name ", name,
                         "; text_encoder, spatial_upsampler, temporal_upsampler, distilled_lora, lora and kind are"));
}

// A hint for a folder that contains single-file checkpoints.
std::string SingleFilesIn(const fs::path& folder) {
  std::set<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") files.insert(it->path().string());
  }
  return files.empty() ? "" : Cat("; of a checkpoint in one file, name the file: ", absl::StrJoin(files, " or "));
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

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const ModelFiles& files) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  for (const std::string& path : files.paths) KINORA_RETURN_IF_ERROR(checkpoint->AddPath(path));
  if (!files.text_encoder.empty()) {
    std::erase_if(checkpoint->tensors_, [](const auto& entry) { return ComponentOf(entry.first) == "text_encoder"; });
    checkpoint->component_configs_.erase("text_encoder");
    checkpoint->tokenizer_model_.clear();
    checkpoint->tokenizer_config_.clear();
    KINORA_RETURN_IF_ERROR(checkpoint->AddTextEncoder(files.text_encoder));
  }
  for (const auto& [component, path] : {std::pair(std::string_view("spatial_upsampler"), &files.spatial_upsampler),
                                        {"temporal_upsampler", &files.temporal_upsampler}}) {
    if (!path->empty()) KINORA_RETURN_IF_ERROR(checkpoint->AddUpsampler(component, *path));
  }
  return checkpoint;
}

std::shared_ptr<const Checkpoint> Checkpoint::Of(std::shared_ptr<const SafetensorsFile> file,
                                                 std::vector<TensorInfo> tensors) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->placed_ = std::move(tensors);
  for (const TensorInfo& tensor : checkpoint->placed_) checkpoint->tensors_[tensor.name] = {file.get(), &tensor};
  checkpoint->files_.push_back(std::move(file));
  return checkpoint;
}

absl::Status Checkpoint::AddPath(const std::string& path) {
  if (IsFolder(path)) return AddFolder(path);
  const size_t before = files_.size();
  KINORA_RETURN_IF_ERROR(AddFiles(path, /*diffusers_component=*/""));
  for (size_t i = before; i < files_.size(); ++i) KINORA_RETURN_IF_ERROR(AddMetadata(*files_[i]));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddFolder(const std::string& folder) {
  const fs::path root(folder);
  bool found = false;
  for (std::string_view component : kDiffusersComponents) {
    const fs::path part = root / component;
    if (!IsFolder(part)) continue;
    KINORA_ASSIGN_OR_RETURN(const std::string weights, WeightsIn(part));
    KINORA_RETURN_IF_ERROR(AddFiles(weights, component));
    KINORA_ASSIGN_OR_RETURN(std::string config, ReadTextFile((part / "config.json").string()));
    if (!component_configs_.emplace(component, std::move(config)).second) {
      return absl::InvalidArgumentError(Cat(folder, ": ", component, " is given twice"));
    }
    found = true;
  }
  if (!found) {
    return absl::InvalidArgumentError(Cat(folder,
                                          ": not a diffusers folder: it holds none of transformer/, connectors/, vae/, "
                                          "audio_vae/, vocoder/",
                                          SingleFilesIn(root)));
  }
  if (const fs::path scheduler = root / "scheduler" / "scheduler_config.json"; IsFile(scheduler)) {
    KINORA_ASSIGN_OR_RETURN(component_configs_["scheduler"], ReadTextFile(scheduler.string()));
  }
  if (IsFolder(root / "text_encoder")) KINORA_RETURN_IF_ERROR(AddTextEncoder((root / "text_encoder").string()));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddTextEncoder(const std::string& path) {
  const bool folder = IsFolder(path);
  std::string weights = path;
  const fs::path root = folder ? fs::path(path) : fs::path(path).parent_path();
  if (folder) {
    KINORA_ASSIGN_OR_RETURN(weights, WeightsIn(path));
  }
  KINORA_RETURN_IF_ERROR(AddFiles(weights, "text_encoder"));
  KINORA_ASSIGN_OR_RETURN(component_configs_["text_encoder"], ReadTextFile((root / "config.json").string()));
  for (const fs::path& candidate : {root / "tokenizer.model", root / "tokenizer" / "tokenizer.model",
                                    root / ".." / "tokenizer" / "tokenizer.model"}) {
    if (!IsFile(candidate)) continue;
    tokenizer_model_ = candidate.lexically_normal().string();
    if (const fs::path config = candidate.parent_path() / "tokenizer_config.json"; IsFile(config)) {
      KINORA_ASSIGN_OR_RETURN(tokenizer_config_, ReadTextFile(config.string()));
    }
    break;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::AddUpsampler(std::string_view component, const std::string& path) {
  std::string weights = path, config;
  if (IsFolder(path)) {
    const fs::path inner = fs::path(path) / "latent_upsampler", root = IsFolder(inner) ? inner : fs::path(path);
    KINORA_ASSIGN_OR_RETURN(weights, WeightsIn(root));
    KINORA_ASSIGN_OR_RETURN(config, ReadTextFile((root / "config.json").string()));
  }
  KINORA_ASSIGN_OR_RETURN(const auto files, OpenSafetensors(weights));
  for (const auto& file : files) {
    files_.push_back(file);
    for (const TensorInfo& tensor : file->tensors()) {
      const std::string key = Cat(component, ".", CanonicalFromUpsampler(tensor.name));
      if (tensors_.try_emplace(key, Entry{file.get(), &tensor}).second) continue;
      return absl::InvalidArgumentError(
          Cat(file->path(), ": tensor ", tensor.name, ": the upsampler has it already: ", Describe(key)));
    }
    const auto found = file->metadata().find("config");
    if (config.empty() && found != file->metadata().end()) config = found->second;
  }
  if (config.empty()) {
    return absl::InvalidArgumentError(Cat(path, ": no latent upsampler: its metadata has no config"));
  }
  upsampler_configs_[std::string(component)] = std::move(config);
  return absl::OkStatus();
}

absl::Status Checkpoint::AddFiles(const std::string& path, std::string_view diffusers_component) {
  KINORA_ASSIGN_OR_RETURN(const auto files, OpenSafetensors(path));
  const int encoder_levels = EncoderLevels(files);
  bool any = false;
  for (const auto& file : files) {
    files_.push_back(file);
    for (const TensorInfo& tensor : file->tensors()) {
      std::optional<std::string> key;
      if (diffusers_component.empty()) {
        key = CanonicalFromSingleFile(tensor.name);
      } else if (diffusers_component == "text_encoder") {
        key = CanonicalFromTextEncoder(tensor.name);
      } else {
        key = CanonicalFromDiffusers(diffusers_component, tensor.name, encoder_levels);
      }
      if (!key) continue;  // of no known component, for example an upsampler's or a LoRA's
      any = true;
      const auto [it, added] = tensors_.try_emplace(*std::move(key), Entry{file.get(), &tensor});
      if (!added) {
        return absl::InvalidArgumentError(
            Cat(file->path(), ": tensor ", tensor.name, ": the model has it already: ", Describe(it->first)));
      }
    }
  }
  if (!any) return absl::InvalidArgumentError(Cat(path, ": no tensor of an LTX-2 model in it"));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddMetadata(const SafetensorsFile& file) {
  const auto find = [&](const char* key) {
    const auto it = file.metadata().find(key);
    return it == file.metadata().end() ? std::string() : it->second;
  };
  const std::string version = find("model_version");
  if (!version.empty() && !model_version_.empty() && version != model_version_) {
    return absl::InvalidArgumentError(
        Cat(file.path(), ": model_version ", version, ", but another file of the model says ", model_version_));
  }
  if (!version.empty()) model_version_ = version;
  if (const std::string config = find("config"); !config.empty()) {
    KINORA_ASSIGN_OR_RETURN(config_, MergeConfigs(config_, config, file.path()));
  }
  return absl::OkStatus();
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
  for (const auto& file : files_) paths.push_back(file->path());
  return paths;
}

std::string Checkpoint::Describe(std::string_view canonical) const {
  const Entry* entry = Find(canonical);
  if (entry == nullptr) return std::string(canonical);
  return Cat(entry->file->path(), ": tensor ", entry->tensor->name);
}

}  // namespace kinora
