#include "engine/pipeline/adapters.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/parallel/agree.h"

namespace kinora {

const Lora& Adapters::Find(const std::string& id) const {
  const auto found = loras_.find(id);
  KINORA_CHECK(found != loras_.end()) << "no LoRA " << id;
  return *found->second;
}

absl::Status Adapters::PutOn(Exec& exec, absl::Span<const AppliedLora> wanted,
                             absl::FunctionRef<absl::Status()> on_weight) {
  std::vector<AppliedLora> next;
  for (const AppliedLora& lora : wanted) {
    if (lora.strength != 0) next.push_back(lora);
  }
  if (!mixed_ && next == on_) return absl::OkStatus();
  const TraceSpan span("weights", "put_on_loras");
  WeightDeltas deltas;
  for (const AppliedLora& lora : next) Find(lora.id).AddTo(lora.strength, deltas);
  ++swaps_;
  mixed_ = true;
  KINORA_RETURN_IF_ERROR(AgreeAmongAll(exec, weights_->Rewrite(deltas, exec.ops, on_weight)));
  mixed_ = false;
  on_ = std::move(next);
  return absl::OkStatus();
}

std::string Adapters::TextKey(absl::Span<const AppliedLora> loras) const {
  std::string key;
  for (const AppliedLora& lora : loras) {
    if (lora.strength == 0 || !Find(lora.id).changes_text()) continue;
    absl::StrAppend(&key, lora.id.size(), ":", lora.id, std::bit_cast<uint64_t>(lora.strength), ";");
  }
  return key;
}

}  // namespace kinora
