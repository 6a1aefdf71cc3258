#include "engine/weights/lora.h"

#include <optional>
#include <string_view>

#include "engine/base/status_macros.h"
#include "engine/base/strings.h"
#include "engine/weights/float_formats.h"
#include "engine/weights/key_tables.h"

namespace kinora {
namespace {

constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight";
constexpr std::string_view kUnread[] = {".alpha", ".dora_scale", ".lora_magnitude_vector",
                                        ".lora_magnitude_vector.weight"};
constexpr size_t kMostPerTensor = 4;  // down, up, alpha and magnitudes
constexpr std::string_view kReferences[] = {"reference_downscale_factor", "reference_temporal_scale_factor"};
constexpr std::string_view kDiffusers[] = {"transformer", "connectors"};

// Returns the canonical name of the weight of `module`, named as in a LoRA.
std::optional<std::string> CanonicalWeight(std::string_view module) {
  const std::string weight = Cat(module, ".weight");
  if (module.starts_with("diffusion_model.")) return CanonicalFromSingleFile(Cat("model.", weight));
  if (module.starts_with("text_embedding_projection.")) return CanonicalFromSingleFile(weight);
  for (const std::string_view component : kDiffusers) {
    if (ComponentOf(weight) != component) continue;
    return CanonicalFromDiffusers(component, weight.substr(component.size() + 1));
  }
  return std::nullopt;
}

bool IsUnread(std::string_view name) {
  for (const std::string_view suffix : kUnread) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

absl::Status CheckMetadata(const SafetensorsFile& file) {
  for (const std::string_view key : kReferences) {
    if (!file.metadata().contains(std::string(key))) continue;
    return absl::UnimplementedError(Cat(file.path(), ": its metadata has ", key,
                                        ": it is an IC-LoRA, made for clips with a reference video beside them, and "
                                        "reference videos are not available yet"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Lora>> Lora::Open(const std::string& path, const Checkpoint& model,
                                                       LoraOptions options) {
  KINORA_ASSIGN_OR_RETURN(std::shared_ptr<const SafetensorsFile> file, SafetensorsFile::Open(path));
  return Open(std::move(file), model, std::move(options));
}

absl::StatusOr<std::shared_ptr<const Lora>> Lora::Open(std::shared_ptr<const SafetensorsFile> file,
                                                       const Checkpoint& model, LoraOptions options) {
  const std::string path = file->path();
  const size_t tensors = file->tensors().size(), most = kMostPerTensor * model.tensors().size();
  if (tensors > most) {
    return absl::InvalidArgumentError(
        Cat(path, ": ", tensors, " tensors; a LoRA of this model has at most ", most, ", it is made for another"));
  }
  KINORA_RETURN_IF_ERROR(CheckMetadata(*file));
  std::shared_ptr<Lora> lora(new Lora(std::move(file), std::move(options)));
  for (const TensorInfo& tensor : lora->file_->tensors()) KINORA_RETURN_IF_ERROR(lora->Place(tensor, model));
  if (lora->products_.empty()) return absl::InvalidArgumentError(Cat(path, ": no LoRA: it has no lora_A.weight"));
  for (const auto& [name, product] : lora->products_) {
    KINORA_RETURN_IF_ERROR(lora->CheckProduct(name, product, model));
    if (ComponentOf(name) != "transformer") lora->changes_text_ = true;
  }
  return lora;
}

std::shared_ptr<const Lora> Lora::WithDigest(std::string digest) const {
  std::shared_ptr<Lora> lora(new Lora(*this));
  lora->options_.digest = std::move(digest);
  return lora;
}

std::string Lora::Key() const {
  return Cat(options_.digest.empty() ? path() : options_.digest, " ", options_.full_strength);
}

absl::Status Lora::Place(const TensorInfo& tensor, const Checkpoint& model) {
  const std::string_view name = tensor.name;
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(Cat(path(), ": tensor ", name, ": ", why));
  };
  if (IsUnread(name)) return absl::OkStatus();
  const bool down = name.ends_with(kDown);
  if (!down && !name.ends_with(kUp)) return refuse("neither lora_A.weight nor lora_B.weight of a module");
  const std::optional<std::string> canonical = CanonicalWeight(name.substr(0, name.size() - kDown.size()));
  if (!canonical) {
    return refuse(
        "names of a LoRA begin with diffusion_model. or text_embedding_projection., or with transformer. or "
        "connectors.");
  }
  const Checkpoint::Entry* const weight = model.Find(*canonical);
  if (weight == nullptr) return refuse(Cat("this model has no module for it (", *canonical, ")"));
  if (weight->tensor->shape.rank() != 2) return refuse(Cat(*canonical, " is no weight of a linear layer"));
  if (!IsFloat(tensor.dtype) || tensor.shape.rank() != 2) {
    return refuse(Cat(SafetensorsDTypeName(tensor.dtype), " ", tensor.shape.ToString(), ", a matrix is needed"));
  }
  Product& product = products_[*canonical];
  Checkpoint::Entry& entry = down ? product.down : product.up;
  if (entry.tensor != nullptr) return refuse(Cat("the module is there already, as ", entry.tensor->name));
  entry = {file_.get(), &tensor};
  return absl::OkStatus();
}

absl::Status Lora::CheckProduct(const std::string& name, const Product& product, const Checkpoint& model) const {
  const TensorInfo *const up = product.up.tensor, *const down = product.down.tensor;
  if (up == nullptr || down == nullptr) {
    return absl::InvalidArgumentError(Cat(path(), ": tensor ", (up == nullptr ? down : up)->name,
                                          ": its module has no ", up == nullptr ? "lora_B.weight" : "lora_A.weight"));
  }
  const Shape &full = model.Find(name)->tensor->shape, &u = up->shape, &d = down->shape;
  if (u[1] != d[0] || u[1] == 0) {
    return absl::InvalidArgumentError(Cat(path(), ": tensors ", down->name, " ", d.ToString(), " and ", up->name, " ",
                                          u.ToString(), ": their ranks differ, ", d[0], " and ", u[1]));
  }
  if (u[0] == full[0] && d[1] == full[1]) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat(path(), ": tensors ", down->name, " ", d.ToString(), " and ", up->name, " ",
                                        u.ToString(), ": ", name, " is ", full.ToString(),
                                        "; the LoRA was made for another model"));
}

void Lora::AddTo(double strength, WeightDeltas& deltas, const SafetensorsFile* loaded) const {
  const SafetensorsFile* const file = loaded != nullptr ? loaded : file_.get();
  const auto factor = static_cast<float>(strength * options_.full_strength);
  for (const auto& [name, product] : products_) {
    deltas[name].push_back({.up = TensorSource({file, product.up.tensor}, 1),
                            .down = TensorSource({file, product.down.tensor}, 1),
                            .strength = factor});
  }
}

absl::StatusOr<Loras> OpenLoras(const ModelFiles& files, const Checkpoint& model) {
  Loras loras;
  const auto open = [&](const std::string& id, const std::string& path, double full_strength) {
    auto lora = Lora::Open(path, model, {.full_strength = full_strength});
    if (!lora.ok()) return absl::Status(lora.status().code(), Cat("lora ", id, ": ", lora.status().message()));
    if (loras.emplace(id, *std::move(lora)).second) return absl::OkStatus();
    return absl::InvalidArgumentError(
        Cat("lora ", id, ": given twice", id == kDistilledLora ? ", once as distilled_lora" : ""));
  };
  if (!files.distilled_lora.empty()) {
    const double strength = files.distilled_lora_strength.value_or(1);
    KINORA_RETURN_IF_ERROR(open(std::string(kDistilledLora), files.distilled_lora, strength));
  }
  for (const ModelFiles::Lora& named : files.loras) KINORA_RETURN_IF_ERROR(open(named.id, named.path, 1));
  return loras;
}

}  // namespace kinora
