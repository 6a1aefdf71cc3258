#include "engine/pipeline/adapters.h"

#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace.h"
#include "engine/parallel/agree.h"
#include "engine/pipeline/stage_use.h"

namespace kinora {
namespace {

// Clients see these messages, so they must not contain local paths.
absl::Status OfLora(const std::string& id, const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return status;
  return absl::FailedPreconditionError(absl::StrCat("lora ", id,
                                                    ": its file has been written to since it was opened; restart the "
                                                    "worker, or put the file back by rename"));
}

absl::Status OfProduct(absl::Span<const AppliedLora> wanted, const absl::Status& status) {
  if (!absl::IsOutOfRange(status)) return status;
  std::vector<std::string> names;
  for (const AppliedLora& applied : wanted) {
    if (applied.strength != 0) names.push_back(absl::StrCat(applied.id, ":", applied.strength));
  }
  return absl::InvalidArgumentError(absl::StrCat("loras: with ", absl::StrJoin(names, ", "), " the weight ",
                                                 std::string(status.message()), "; lower the strength"));
}

}  // namespace

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
  const TraceSpan span("weights", kPutOnLoras.name().data());
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
      auto kept = cache_->Get(file, /*counted=*/exec.mesh.world().rank() == 0, on_weight);
      if (!kept.ok()) return OfLora(applied.id, kept.status());
      file = *std::move(kept);
    }
    applied.lora->AddTo(applied.strength, deltas, file.get());
  }
  KINORA_RETURN_IF_ERROR(OfProduct(wanted, weights_->Rewrite(deltas, exec.ops, on_weight)));
  size_t read = 0;
  for (const AppliedLora& applied : wanted) {
    if (applied.strength != 0) KINORA_RETURN_IF_ERROR(OfLora(applied.id, files[read++]->CheckUnchanged()));
  }
  return absl::OkStatus();
}

// Rank 0 decides, because Lora::Key() may be a digest on one rank and a path on another.
absl::StatusOr<Adapters::Fit> Adapters::FitOf(Exec& exec, absl::Span<const AppliedLora> wanted) {
  std::array<int64_t, 2> said = {static_cast<int64_t>(!mixed_ && KeysOf(wanted) == on_), NumberOf(TextKey(wanted))};
  KINORA_RETURN_IF_ERROR(ShareFromRankZero(exec, absl::OkStatus(), absl::MakeSpan(said)));
  return Fit{.worn = said[0] != 0, .text_key = said[1] == 0 ? "" : absl::StrCat(said[1])};
}

// Numbers are never reused, so clearing the table only causes prompts to be encoded again.
int64_t Adapters::NumberOf(const std::string& text_key) {
  constexpr size_t kMost = 1000;
  if (text_key.empty()) return 0;
  if (text_numbers_.size() >= kMost && !text_numbers_.contains(text_key)) text_numbers_.clear();
  const auto [known, fresh] = text_numbers_.try_emplace(text_key, last_number_ + 1);
  if (fresh) ++last_number_;
  return known->second;
}

std::string Adapters::TextKey(absl::Span<const AppliedLora> loras) {
  std::string key;
  for (const AppliedLora& applied : loras) {
    if (applied.strength == 0 || !applied.lora->changes_text()) continue;
    const std::string lora = applied.lora->Key();
    absl::StrAppend(&key, lora.size(), ":", lora, std::bit_cast<uint64_t>(applied.strength), ";");
  }
  return key;
}

}  // namespace kinora
