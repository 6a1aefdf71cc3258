// LoRA files: low-rank products for linear layers of the transformer, the connectors and the text projection. Two
// layouts of names, told apart tensor by tensor (key_tables.h has the renames):
//   Lightricks, ComfyUI   diffusion_model.MODULE.lora_A.weight, text_embedding_projection.MODULE.lora_A.weight
//   diffusers             transformer.MODULE.lora_A.weight, connectors.MODULE.lora_A.weight
// lora_A is `down` [rank, in], lora_B is `up` [out, rank]; what is added is strength · up · down, without a factor of
// alpha over rank (ltx_core/loader/fuse_loras.py): `.alpha` and DoRA's magnitudes are not read there and not here.
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
  double full_strength = 1;  // what a strength of 1 stands for
  std::string digest{};      // "sha256:HEX" of the file, where that is known
};

class Lora {  // an open file; the factors are read when it is put on
 public:
  // For the tensors of `model`. NotFound, or InvalidArgument naming the file and the tensor: a name of neither layout,
  // a module that the model lacks, one factor without the other, ranks or shapes that do not fit, or so many tensors
  // that they cannot all change a tensor of the model. Unimplemented if the
  // metadata has reference scale factors: such a LoRA expects a reference video beside the clip (IC-LoRA).
  static absl::StatusOr<std::shared_ptr<const Lora>> Open(const std::string& path, const Checkpoint& model,
                                                          LoraOptions options = {});
  static absl::StatusOr<std::shared_ptr<const Lora>> Open(std::shared_ptr<const SafetensorsFile> file,
                                                          const Checkpoint& model, LoraOptions options = {});
  // The same file, of which more is known now.
  std::shared_ptr<const Lora> WithDigest(std::string digest) const;

  const std::string& path() const { return file_->path(); }
  const std::string& digest() const { return options_.digest; }
  // Equal for what adds the same terms: of one content and one full strength.
  std::string Key() const;
  // Whether it changes how prompts are encoded: it has products for connectors or text projection.
  bool changes_text() const { return changes_text_; }
  const std::shared_ptr<const SafetensorsFile>& file() const { return file_; }
  // Adds its terms to `deltas`, which must not outlive it, nor the file that they are read from: file(), or that where
  // it lies in memory.
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

// By their ids.
using Loras = std::map<std::string, std::shared_ptr<const Lora>, std::less<>>;

// The id of the model's own LoRA that makes few steps do.
inline constexpr std::string_view kDistilledLora = "distilled";

// All that `files` names, the distilled one among them, whose strengths are parts of the one given with it. The errors
// of Open, with the id; InvalidArgument for an id given twice.
absl::StatusOr<Loras> OpenLoras(const ModelFiles& files, const Checkpoint& model);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_LORA_H_
