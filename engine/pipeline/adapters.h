// The LoRAs of a loaded model on one rank: which of them the weights bear, and how another set goes on in place.
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
  std::shared_ptr<const Lora> lora{};  // null in a plan that is not to be run
  bool operator==(const AppliedLora&) const = default;
};

// Not thread-safe: one per rank. All ranks of a mesh make the same calls.
class Adapters {
 public:
  // weights: of the model that the LoRAs are opened for.
  // cache: null for none.
  Adapters(std::shared_ptr<WeightSet> weights, std::shared_ptr<FactorCache> cache)
      : weights_(std::move(weights)), cache_(std::move(cache)) {}

  // What decides which collectives the ranks enter, so rank 0's answer on every rank.
  struct Fit {
    bool worn = false;  // the weights are those that PutOn would make
    // What of the LoRAs decides how a prompt is encoded, as a key of contexts: "" if nothing does.
    std::string text_key;
  };
  absl::StatusOr<Fit> FitOf(Exec& exec, absl::Span<const AppliedLora> wanted);
  // Makes the weights those of the checkpoint plus `wanted`, added in this order; {} gives the bits of the load back.
  // CHECK-fails on one that is not opened. What goes wrong on any rank is agreed (agree.h): a product that is not
  // finite, by its tensor's name, I/O, or what on_weight, called after each weight that is rewritten, says on a rank;
  // the next call mends it.
  absl::Status PutOn(Exec& exec, absl::Span<const AppliedLora> wanted, absl::FunctionRef<absl::Status()> on_weight);

  int64_t swaps() const { return swaps_; }  // calls that had to rewrite weights

 private:
  // Of those that do anything: by what they add and how much, so that a file opened anew is the same.
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
  bool mixed_ = false;  // a rewrite failed: the weights are no set's
  int64_t swaps_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_ADAPTERS_H_
