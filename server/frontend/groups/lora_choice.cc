#include "server/frontend/groups/lora_choice.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "server/request/model_conversion.h"

namespace kinora {
namespace {

constexpr char kDistilled[] = "distilled";  // its name in engine/weights/lora.h

bool IsOf(const QueuedJob& job, const v1::ModelInfo& model) { return job.model.empty() || model.id() == job.model; }

}  // namespace

std::string LoraKey(absl::Span<const v1::LoraRef> loras) {
  std::string key;
  for (const v1::LoraRef& lora : loras) {
    if (lora.strength() == 0) continue;
    absl::StrAppend(&key, lora.id().size(), ":", lora.id(), " ", lora.digest(), " ",
                    std::bit_cast<uint64_t>(lora.strength()), ";");
  }
  return key;
}

std::string FirstLoras(const QueuedJob& job, const v1::ModelInfo& model) {
  std::vector<v1::LoraRef> loras = job.loras;
  const double distilled = DistilledShareOf(job.recipe);
  if (distilled != 0 && model.parts().distilled_lora()) {
    loras.emplace_back();
    loras.back().set_id(kDistilled);
    loras.back().set_strength(distilled);
  }
  return LoraKey(loras);
}

bool HasLoras(const QueuedJob& job, const v1::ModelInfo& model) {
  return std::all_of(job.loras.begin(), job.loras.end(), [&](const v1::LoraRef& lora) {
    if (!lora.digest().empty()) return LoraDigest(model, lora.id()) == lora.digest();
    return std::find(model.loras().begin(), model.loras().end(), lora.id()) != model.loras().end();
  });
}

bool GroupsNow::HasIdle(const std::string& id, const std::string& incarnation) const {
  return std::any_of(idle.begin(), idle.end(),
                     [&](const IdleGroup& group) { return group.id == id && group.incarnation == incarnation; });
}

const IdleGroup* GroupFor(const QueuedJob& job, const GroupsNow& groups) {
  const bool somewhere = std::any_of(groups.models.begin(), groups.models.end(), [&job](const v1::ModelInfo& model) {
    return IsOf(job, model) && HasLoras(job, model);
  });
  const IdleGroup* chosen = nullptr;
  for (const IdleGroup& group : groups.idle) {
    if (group.reserved && !Admits(*group.reserved, job.id, job.priority)) continue;
    if (!IsOf(job, group.model) || (somewhere && !HasLoras(job, group.model))) continue;
    if (group.worn == FirstLoras(job, group.model)) return &group;
    if (chosen == nullptr) chosen = &group;
  }
  return chosen;
}

}  // namespace kinora
