// The LoRAs of a loaded model on one rank: which of them the weights bear, and how another set goes on in place.
#ifndef KINORA_ENGINE_PIPELINE_ADAPTERS_H_
#define KINORA_ENGINE_PIPELINE_ADAPTERS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/parallel/exec.h"
#include "engine/weights/lora.h"
#include "engine/weights/weight_set.h"

namespace kinora {

struct AppliedLora {
  std::string id;
  double strength = 1;
  bool operator==(const AppliedLora&) const = default;
};

// Not thread-safe: one per rank. All ranks of a mesh make the same calls.
class Adapters {
 public:
  // weights: of the model that `loras` were opened for.
  Adapters(Loras loras, std::shared_ptr<WeightSet> weights) : loras_(std::move(loras)), weights_(std::move(weights)) {}

  // Makes the weights those of the checkpoint plus `wanted`, added in this order; {} gives the bits of the load back.
  // Nothing is done if that is what they are. CHECK-fails on an id that the model does not have. What goes wrong on any
  // rank is agreed (agree.h): a product that is not finite, by its tensor's name, I/O, or what on_weight, called after
  // each weight that is rewritten, says on a rank; the next call mends it.
  absl::Status PutOn(Exec& exec, absl::Span<const AppliedLora> wanted, absl::FunctionRef<absl::Status()> on_weight);

  // What of `loras` decides how a prompt is encoded, as a key of contexts: "" if nothing does.
  std::string TextKey(absl::Span<const AppliedLora> loras) const;

  int64_t swaps() const { return swaps_; }  // calls that had to rewrite weights

 private:
  const Lora& Find(const std::string& id) const;

  const Loras loras_;
  const std::shared_ptr<WeightSet> weights_;
  std::vector<AppliedLora> on_;
  bool mixed_ = false;  // a rewrite failed: the weights are no set's
  int64_t swaps_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_ADAPTERS_H_
