#include "engine/weights/component_files.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/json_text.h"
#include "engine/weights/key_tables.h"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using Source = ComponentFile::Source;
using Shards = std::vector<std::shared_ptr<const SafetensorsFile>>;
using Rename = std::function<std::optional<std::string>(std::string_view)>;

constexpr std::string_view kDiffusersComponents[] = {"transformer", "connectors", "vae", "audio_vae", "vocoder"};
constexpr std::string_view kWeightNames[] = {"diffusion_pytorch_model.safetensors.index.json",
                                             "diffusion_pytorch_model.safetensors", "model.safetensors.index.json",
                                             "model.safetensors"};
constexpr std::string_view kFile = ".safetensors", kIndex = ".safetensors.index.json";

// The parts of a model that --model names, with what each may hold.
struct Part {
  std::string_view name;  // of the argument
  std::string ModelFiles::*path;
  std::vector<std::string_view> components;  // the first must be there
};
const std::vector<Part>& NamedParts() {
  static const auto& parts = *new std::vector<Part>{
      {"text_encoder", &ModelFiles::text_encoder, {"text_encoder", "text_projection"}},
      {"video_vae", &ModelFiles::video_vae, {"vae"}},
      {"audio_vae", &ModelFiles::audio_vae, {"audio_vae", "vocoder"}},
      {"duration_head", &ModelFiles::duration_head, {"duration_head"}},
      {"spatial_upsampler", &ModelFiles::spatial_upsampler, {"spatial_upsampler"}},
      {"temporal_upsampler", &ModelFiles::temporal_upsampler, {"temporal_upsampler"}},
  };
  return parts;
}

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

bool AnyTensor(const Shards& shards, const std::function<bool(std::string_view)>& fits) {
  return std::any_of(shards.begin(), shards.end(), [&](const auto& file) {
    return std::any_of(file->tensors().begin(), file->tensors().end(),
                       [&](const TensorInfo& tensor) { return fits(tensor.name); });
  });
}

enum class Kind { kModel, kTextEncoder, kUpsampler, kLora };

Kind KindOf(const Shards& shards) {
  constexpr std::string_view kInEveryTextEncoder = "text_encoder.layers.0.post_feedforward_layernorm.weight";
  if (AnyTensor(shards, [](std::string_view name) { return name == "initial_conv.weight"; })) return Kind::kUpsampler;
  if (AnyTensor(shards, [](std::string_view name) {
        return name.ends_with(".lora_A.weight") || name.ends_with(".lora_down.weight");
      })) {
    return Kind::kLora;
  }
  const bool text =
      AnyTensor(shards, [&](std::string_view name) { return CanonicalFromTextEncoder(name) == kInEveryTextEncoder; });
  return text ? Kind::kTextEncoder : Kind::kModel;
}

// Down blocks of a diffusers VAE's encoder.
int EncoderLevels(const Shards& shards) {
  constexpr std::string_view kStart = "encoder.down_blocks.";
  std::set<std::string_view> levels;
  for (const auto& file : shards) {
    for (const TensorInfo& tensor : file->tensors()) {
      std::string_view name = tensor.name;
      if (!name.starts_with(kStart)) continue;
      name.remove_prefix(kStart.size());
      levels.insert(name.substr(0, name.find('.')));
    }
  }
  return levels.empty() ? 4 : static_cast<int>(levels.size());
}

// rename: gives nullopt for tensors of no known component.
ComponentFile WithTensors(Source source, std::string path, Shards shards, const Rename& rename) {
  ComponentFile file{.source = source, .path = std::move(path), .shards = std::move(shards)};
  for (const auto& shard : file.shards) {
    for (const TensorInfo& tensor : shard->tensors()) {
      std::optional<std::string> key = rename(tensor.name);
      if (!key) continue;
      file.components.insert(std::string(ComponentOf(*key)));
      file.tensors.emplace_back(*std::move(key), TensorEntry{shard.get(), &tensor});
    }
  }
  return file;
}

// Leaves the tensors of these components.
void Keep(ComponentFile& file, const std::function<bool(std::string_view)>& component) {
  std::erase_if(file.tensors, [&](const auto& tensor) { return !component(ComponentOf(tensor.first)); });
  std::erase_if(file.components, [&](const std::string& name) { return !component(name); });
}

// path: of the file or index. The configuration is in the file or, as config.json, beside it.
absl::StatusOr<ComponentFile> OfTextEncoder(Source source, const std::string& path, Shards shards) {
  ComponentFile file = WithTensors(source, path, std::move(shards), CanonicalFromTextEncoder);
  file.config_of = "text_encoder";
  file.config = file.MetadataOf("gemma_config");
  if (file.config.empty()) {
    KINORA_ASSIGN_OR_RETURN(file.config, ReadTextFile((fs::path(path).parent_path() / "config.json").string()));
  }
  return file;
}

// component: the one that the caller asks for; "" for the one that the configuration tells.
absl::StatusOr<ComponentFile> OfUpsampler(Source source, const std::string& path, Shards shards, std::string component,
                                          std::string config) {
  for (const auto& shard : shards) {
    const auto found = shard->metadata().find("config");
    if (config.empty() && found != shard->metadata().end()) config = found->second;
  }
  if (config.empty()) {
    return absl::InvalidArgumentError(Cat(path, ": no latent upsampler: its metadata has no config"));
  }
  if (component.empty()) {
    KINORA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonText(config, Cat(path, ": metadata config")));
    const bool time = json.is_object() && json.value("temporal_upsample", nlohmann::json(false)) == true;
    component = time ? "temporal_upsampler" : "spatial_upsampler";
  }
  ComponentFile file = WithTensors(source, path, std::move(shards), [&](std::string_view name) {
    return Cat(component, ".", CanonicalFromUpsampler(name));
  });
  file.config_of = std::move(component);
  file.config = std::move(config);
  return file;
}

absl::StatusOr<ComponentFile> OfFile(Source source, const std::string& path, Shards shards) {
  switch (KindOf(shards)) {
    case Kind::kTextEncoder:
      return OfTextEncoder(source, path, std::move(shards));
    case Kind::kUpsampler:
      return OfUpsampler(source, path, std::move(shards), /*component=*/"", /*config=*/"");
    case Kind::kLora:
      return absl::InvalidArgumentError(
          Cat(path, ": a LoRA; give it as --model lora=ID:FILE or --model distilled_lora=FILE"));
    case Kind::kModel:
      break;
  }
  ComponentFile file = WithTensors(source, path, std::move(shards), CanonicalFromSingleFile);
  if (file.components.empty()) return absl::InvalidArgumentError(Cat(path, ": no tensor of an LTX-2 model in it"));
  return file;
}

absl::StatusOr<ComponentFile> OpenFile(Source source, const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(Shards shards, OpenSafetensors(path));
  return OfFile(source, path, std::move(shards));
}

// path: a folder with config.json and weights, or a file.
absl::StatusOr<ComponentFile> OpenTextEncoder(Source source, const std::string& path) {
  std::string weights = path;
  if (IsFolder(path)) {
    KINORA_ASSIGN_OR_RETURN(weights, WeightsIn(path));
  }
  KINORA_ASSIGN_OR_RETURN(Shards shards, OpenSafetensors(weights));
  return OfTextEncoder(source, weights, std::move(shards));
}

absl::StatusOr<ComponentFile> OpenUpsampler(const std::string& path, std::string_view component) {
  std::string weights = path, config;
  if (IsFolder(path)) {
    const fs::path inner = fs::path(path) / "latent_upsampler", root = IsFolder(inner) ? inner : fs::path(path);
    KINORA_ASSIGN_OR_RETURN(weights, WeightsIn(root));
    KINORA_ASSIGN_OR_RETURN(config, ReadTextFile((root / "config.json").string()));
  }
  KINORA_ASSIGN_OR_RETURN(Shards shards, OpenSafetensors(weights));
  return OfUpsampler(Source::kNamed, path, std::move(shards), std::string(component), std::move(config));
}

absl::StatusOr<ComponentFile> OpenNamed(const Part& part, const std::string& path) {
  if (part.name.ends_with("_upsampler")) return OpenUpsampler(path, part.name);
  ComponentFile file;
  if (part.name == "text_encoder") {
    KINORA_ASSIGN_OR_RETURN(file, OpenTextEncoder(Source::kNamed, path));
  } else {
    KINORA_ASSIGN_OR_RETURN(file, OpenFile(Source::kNamed, path));
  }
  Keep(file, [&](std::string_view name) {
    return std::find(part.components.begin(), part.components.end(), name) != part.components.end();
  });
  if (file.components.contains(part.components[0])) return file;
  return absl::InvalidArgumentError(Cat("--model ", part.name, "=", path, ": the file does not hold it"));
}

// The folder of LTX-2.5's separate files has a vae/, too, whose files have other names.
bool IsDiffusersComponent(const fs::path& folder) {
  return IsFile(folder / "config.json") || std::any_of(std::begin(kWeightNames), std::end(kWeightNames),
                                                       [&](std::string_view name) { return IsFile(folder / name); });
}

// Adds the components of a diffusers folder. Returns false if `folder` is none.
absl::StatusOr<bool> AddDiffusers(const fs::path& folder, std::vector<ComponentFile>& files) {
  bool found = false;
  for (std::string_view component : kDiffusersComponents) {
    const fs::path part = folder / component;
    if (!IsDiffusersComponent(part)) continue;
    KINORA_ASSIGN_OR_RETURN(const std::string weights, WeightsIn(part));
    KINORA_ASSIGN_OR_RETURN(Shards shards, OpenSafetensors(weights));
    const int levels = EncoderLevels(shards);
    ComponentFile file = WithTensors(Source::kGiven, weights, std::move(shards), [&](std::string_view name) {
      return CanonicalFromDiffusers(component, name, levels);
    });
    file.config_of = component;
    KINORA_ASSIGN_OR_RETURN(file.config, ReadTextFile((part / "config.json").string()));
    const fs::path scheduler = folder / "scheduler" / "scheduler_config.json";
    if (component == "transformer" && IsFile(scheduler)) {
      KINORA_ASSIGN_OR_RETURN(file.scheduler, ReadTextFile(scheduler.string()));
    }
    files.push_back(std::move(file));
    found = true;
  }
  if (found && IsFolder(folder / "text_encoder")) {
    KINORA_ASSIGN_OR_RETURN(ComponentFile text, OpenTextEncoder(Source::kGiven, (folder / "text_encoder").string()));
    files.push_back(std::move(text));
  }
  return found;
}

// Returns the files and indices in `folder` and in the folders within it, sorted. Shards of an index are left out.
std::vector<std::string> WeightFilesIn(const fs::path& folder) {
  std::set<std::string> paths, indexed;  // folders that have an index
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it.depth() >= 1) it.disable_recursion_pending();
    const std::string name = it->path().filename().string();
    if (name.ends_with(kIndex)) indexed.insert(it->path().parent_path().string());
    if (name.ends_with(kIndex) || name.ends_with(kFile)) paths.insert(it->path().string());
  }
  std::erase_if(paths, [&](const std::string& path) {
    return path.ends_with(kFile) && indexed.contains(fs::path(path).parent_path().string());
  });
  return {paths.begin(), paths.end()};
}

bool Has(const ComponentFile& file, std::string_view component) { return file.components.contains(component); }

std::set<std::string> ComponentsOf(const std::vector<ComponentFile>& files) {
  std::set<std::string> all;
  for (const ComponentFile& file : files) all.insert(file.components.begin(), file.components.end());
  return all;
}

// Forms that this build cannot run, which a folder may hold beside those that it can.
bool IsUnusable(const ComponentFile& file) {
  return AnyTensor(file.shards, [](std::string_view name) {
    return name.ends_with(".weight_scale_2") || name.ends_with(".comfy_quant");
  });
}

bool HasDiffusionDecoder(const ComponentFile& file) {
  return AnyTensor(file.shards,
                   [](std::string_view name) { return name.find("decoder.det_stages.") != std::string_view::npos; });
}

// Whether the file's name says that it is of the other kind.
bool IsOfOtherKind(const ComponentFile& file, ModelFiles::Kind kind) {
  if (kind == ModelFiles::Kind::kUnknown) return false;
  const bool distilled = fs::path(file.path).filename().string().find("distilled") != std::string::npos;
  return distilled != (kind == ModelFiles::Kind::kDistilled);
}

// Leaves each component of a folder's files to one of them.
absl::Status ChooseAmong(const std::string& folder, ModelFiles::Kind kind, std::vector<ComponentFile>& files) {
  for (const std::string& component : ComponentsOf(files)) {
    std::vector<ComponentFile*> having;
    for (ComponentFile& file : files) {
      if (Has(file, component)) having.push_back(&file);
    }
    const auto prefer = [&](const std::function<bool(const ComponentFile&)>& worse) {
      if (std::all_of(having.begin(), having.end(), [&](const ComponentFile* file) { return worse(*file); })) return;
      for (ComponentFile* file : having) {
        if (worse(*file)) Keep(*file, [&](std::string_view name) { return name != component; });
      }
      std::erase_if(having, [&](const ComponentFile* file) { return !Has(*file, component); });
    };
    prefer(IsUnusable);
    if (component == "vae") prefer(HasDiffusionDecoder);  // the convolution decoder is the default
    if (component == "transformer" || component == "connectors") {
      prefer([&](const ComponentFile& file) { return IsOfOtherKind(file, kind); });
    }
    if (having.size() < 2) continue;
    const auto name = [](std::string* out, const ComponentFile* file) { out->append(file->path); };
    return absl::InvalidArgumentError(Cat(folder, ": several files hold the ", component, ": ",
                                          absl::StrJoin(having, ", ", name),
                                          "; give one of them with another --model"));
  }
  return absl::OkStatus();
}

// Adds the files of a folder that is no diffusers folder. LoRAs are left out: they are named.
absl::Status AddFolder(const std::string& folder, ModelFiles::Kind kind, const std::set<std::string>& elsewhere,
                       std::vector<ComponentFile>& files) {
  std::vector<ComponentFile> found;
  for (const std::string& path : WeightFilesIn(folder)) {
    KINORA_ASSIGN_OR_RETURN(Shards shards, OpenSafetensors(path));
    if (KindOf(shards) == Kind::kLora) continue;
    KINORA_ASSIGN_OR_RETURN(ComponentFile file, OfFile(Source::kFound, path, std::move(shards)));
    Keep(file, [&](std::string_view name) { return !elsewhere.contains(std::string(name)); });
    found.push_back(std::move(file));
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(Cat(folder,
                                          ": not a diffusers folder: it holds none of transformer/, connectors/, vae/, "
                                          "audio_vae/, vocoder/, nor a .safetensors file"));
  }
  KINORA_RETURN_IF_ERROR(ChooseAmong(folder, kind, found));
  std::move(found.begin(), found.end(), std::back_inserter(files));
  return absl::OkStatus();
}

}  // namespace

std::string ComponentFile::MetadataOf(const std::string& key) const {
  for (const auto& shard : shards) {
    const auto found = shard->metadata().find(key);
    if (found != shard->metadata().end()) return found->second;
  }
  return "";
}

absl::StatusOr<std::vector<ComponentFile>> FindComponentFiles(const ModelFiles& files) {
  std::vector<ComponentFile> all, named;
  for (const Part& part : NamedParts()) {
    if ((files.*part.path).empty()) continue;
    KINORA_ASSIGN_OR_RETURN(ComponentFile file, OpenNamed(part, files.*part.path));
    named.push_back(std::move(file));
  }
  std::vector<std::string> folders;
  for (const std::string& path : files.paths) {
    if (!IsFolder(path)) {
      KINORA_ASSIGN_OR_RETURN(ComponentFile file, OpenFile(Source::kGiven, path));
      all.push_back(std::move(file));
      continue;
    }
    KINORA_ASSIGN_OR_RETURN(const bool diffusers, AddDiffusers(path, all));
    if (!diffusers) folders.push_back(path);
  }
  const std::set<std::string> replaced = ComponentsOf(named);
  for (ComponentFile& file : all) {
    Keep(file, [&](std::string_view name) { return !replaced.contains(std::string(name)); });
  }
  std::move(named.begin(), named.end(), std::back_inserter(all));
  for (const std::string& folder : folders) {
    const std::set<std::string> elsewhere = ComponentsOf(all);
    KINORA_RETURN_IF_ERROR(AddFolder(folder, files.kind, elsewhere, all));
  }
  std::erase_if(all, [](const ComponentFile& file) { return file.components.empty(); });
  return all;
}

}  // namespace kinora
