// LoRA files: low-rank products for linear layers of the transformer, the connectors and the text projection. Two
// layouts of names, distinguished per tensor (key_tables.h has the renames):
//   Lightricks, ComfyUI   diffusion_model.MODULE.lora_A.weight, text_embedding_projection.MODULE.lora_A.weight
//   diffusers             transformer.MODULE.lora_A.weight, connectors.MODULE.lora_A.weight
// lora_A is `down` [rank, in], lora_B is `up` [out, rank]. The layer gains strength · up · down, without a factor of
// alpha over rank: like the reference (ltx_core/loader/fuse_loras.py), this ignores `.alpha` and DoRA's magnitudes.
#ifndef KINORA_ENGINE_WEIGHTS_LORA_H_
#define KINORA_ENGINE_WEIGHTS_LORA_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/weight_delta.h"

namespace kinora {

struct LoraOptions {
  double full_strength = 1;  // the effective strength of a strength of 1
  std::string digest{};      // "sha256:HEX" of the file, if known
};

class Lora {  // an open file; the factors are read when it is applied
 public:
  // Opens a LoRA for the tensors of `model`. Fails with NotFound, or with InvalidArgument, naming the file and the
  // tensor, for a name of neither layout, a module that the model lacks, a missing factor, ranks or shapes that do not
  // match, or more tensors than could change the model's. Fails with Unimplemented if the metadata has reference scale
  // factors: such a LoRA expects a reference video beside the clip (IC-LoRA).
  static absl::StatusOr<std::shared_ptr<const Lora>> Open(const std::string& path, const Checkpoint& model,
                                                          LoraOptions options = {});
  static absl::StatusOr<std::shared_ptr<const Lora>> Open(std::shared_ptr<const SafetensorsFile> file,
                                                          const Checkpoint& model, LoraOptions options = {});
  // Returns a copy with the digest of its file.
  std::shared_ptr<const Lora> WithDigest(std::string digest) const;

  const std::string& path() const { return file_->path(); }
  const std::string& digest() const { return options_.digest; }
  // Equal for LoRAs that add the same terms: same content (digest or, if unknown, path) and same full strength.
  std::string Key() const;
  // Whether it changes how prompts are encoded: it has products for connectors or text projection.
  bool changes_text() const { return changes_text_; }
  const std::shared_ptr<const SafetensorsFile>& file() const { return file_; }
  // Adds its terms to `deltas`, which must not outlive this object or the file that the terms are read from: `loaded`,
  // its copy in memory, or file() if that is null.
  void AddTo(double strength, WeightDeltas& deltas, const SafetensorsFile* loaded = nullptr) const;

 private:
  struct Product {
    Checkpoint::Entry up, down;
  };
  Lora(std::shared_ptr<const SafetensorsFile> file, LoraOptions options)
      : file_(std::move(file)), options_(std::move(options)) {}
  absl::Status Place(const TensorInfo& tensor, const Checkpoint& model);
  absl::Status CheckProduct(const std::string& name, const Product& product, const Checkpoint& model) const;

  const std::shared_ptr<const SafetensorsFile> file_;
  LoraOptions options_;
  std::map<std::string, Product, std::less<>> products_;  // by the canonical name of the tensor that they change
  bool changes_text_ = false;
};

// By id.
using Loras = std::map<std::string, std::shared_ptr<const Lora>, std::less<>>;

// The id of the model's own LoRA, with which few steps suffice.
inline constexpr std::string_view kDistilledLora = "distilled";

// Opens all LoRAs of `files`, including the distilled one, whose given strength becomes its full strength. Fails as
// Open, with the id, and with InvalidArgument for an id given twice.
absl::StatusOr<Loras> OpenLoras(const ModelFiles& files, const Checkpoint& model);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_LORA_H_
