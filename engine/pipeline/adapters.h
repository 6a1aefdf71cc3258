// The LoRAs in the weights of a loaded model on one rank, and how to replace them with another set in place.
#ifndef KINORA_ENGINE_PIPELINE_ADAPTERS_H_
#define KINORA_ENGINE_PIPELINE_ADAPTERS_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/parallel/exec.h"
#include "engine/weights/factor_cache.h"
#include "engine/weights/lora.h"
#include "engine/weights/weight_set.h"

namespace kinora {

struct AppliedLora {
  std::string id;
  double strength = 1;
  std::shared_ptr<const Lora> lora{};  // null in a plan that will not be run
  bool operator==(const AppliedLora&) const = default;
};

// Not thread-safe: one per rank. All ranks of a mesh make the same calls.
class Adapters {
 public:
  // weights: of the model for which the LoRAs are opened. cache: may be null.
  Adapters(std::shared_ptr<WeightSet> weights, std::shared_ptr<FactorCache> cache)
      : weights_(std::move(weights)), cache_(std::move(cache)) {}

  struct Fit {
    bool worn = false;  // `wanted` is already applied: PutOn would not change the weights
    // Identifies the LoRAs that affect text encoding; part of the cache key of text contexts. "" if there are none.
    std::string text_key;
  };
  // Compares `wanted` with the current weights. Returns rank 0's result on every rank, because it decides which
  // collectives the ranks enter. CHECK-fails on a LoRA that is not opened.
  absl::StatusOr<Fit> FitOf(Exec& exec, absl::Span<const AppliedLora> wanted);
  // Sets the weights to the checkpoint's plus `wanted`, added in this order; {} restores the loaded bits exactly. Calls
  // on_weight after each weight that is rewritten. CHECK-fails on a LoRA that is not opened. Fails if a product is not
  // finite (naming its tensor), on I/O errors, or if on_weight fails; all ranks agree on the failure (agree.h), and the
  // next call repairs the weights.
  absl::Status PutOn(Exec& exec, absl::Span<const AppliedLora> wanted, absl::FunctionRef<absl::Status()> on_weight);

  int64_t swaps() const { return swaps_; }  // calls of PutOn

 private:
  // (Lora::Key(), strength) of each LoRA whose strength is not 0. Equal for the same file opened again.
  using Keys = std::vector<std::pair<std::string, double>>;
  static Keys KeysOf(absl::Span<const AppliedLora> loras);
  static std::string TextKey(absl::Span<const AppliedLora> loras);
  int64_t NumberOf(const std::string& text_key);

  absl::Status Rewrite(Exec& exec, absl::Span<const AppliedLora> wanted, absl::FunctionRef<absl::Status()> on_weight);

  const std::shared_ptr<WeightSet> weights_;
  const std::shared_ptr<FactorCache> cache_;
  Keys on_;
  std::map<std::string, int64_t> text_numbers_;  // by TextKey
  int64_t last_number_ = 0;
  bool mixed_ = false;  // a rewrite failed: the weights match no set of LoRAs
  int64_t swaps_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_ADAPTERS_H_
