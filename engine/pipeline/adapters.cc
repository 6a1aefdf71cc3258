#include "engine/pipeline/adapters.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/parallel/agree.h"

namespace kinora {

Adapters::Keys Adapters::KeysOf(absl::Span<const AppliedLora> loras) {
  Keys keys;
  for (const AppliedLora& applied : loras) {
    KINORA_CHECK(applied.lora != nullptr) << "no LoRA " << applied.id;
    if (applied.strength != 0) keys.emplace_back(applied.lora->Key(), applied.strength);
  }
  return keys;
}

absl::Status Adapters::PutOn(Exec& exec, absl::Span<const AppliedLora> wanted,
                             absl::FunctionRef<absl::Status()> on_weight) {
  if (Wears(wanted)) return absl::OkStatus();
  const TraceSpan span("weights", "put_on_loras");
  ++swaps_;
  mixed_ = true;
  KINORA_RETURN_IF_ERROR(AgreeAmongAll(exec, Rewrite(exec, wanted, on_weight)));
  mixed_ = false;
  on_ = KeysOf(wanted);
  return absl::OkStatus();
}

absl::Status Adapters::Rewrite(Exec& exec, absl::Span<const AppliedLora> wanted,
                               absl::FunctionRef<absl::Status()> on_weight) {
  WeightDeltas deltas;
  std::vector<std::shared_ptr<const SafetensorsFile>> files;
  for (const AppliedLora& applied : wanted) {
    if (applied.strength == 0) continue;
    std::shared_ptr<const SafetensorsFile>& file = files.emplace_back(applied.lora->file());
    if (cache_ != nullptr) {
      KINORA_ASSIGN_OR_RETURN(file, cache_->Get(file, /*counted=*/exec.mesh.world().rank() == 0));
    }
    applied.lora->AddTo(applied.strength, deltas, file.get());
  }
  KINORA_RETURN_IF_ERROR(weights_->Rewrite(deltas, exec.ops, on_weight));
  for (const auto& file : files) KINORA_RETURN_IF_ERROR(file->CheckUnchanged());
  return absl::OkStatus();
}

std::string Adapters::TextKey(absl::Span<const AppliedLora> loras) const {
  std::string key;
  for (const AppliedLora& applied : loras) {
    if (applied.strength == 0 || !applied.lora->changes_text()) continue;
    const std::string lora = applied.lora->Key();
    absl::StrAppend(&key, lora.size(), ":", lora, std::bit_cast<uint64_t>(applied.strength), ";");
  }
  return key;
}

}  // namespace kinora
