#include "engine/pipeline/lora_list.h"

#include "engine/base/check.h"
#include "engine/base/strings.h"

namespace kinora {

std::shared_ptr<const LoraList::Known> LoraList::Get() const {
  absl::MutexLock lock(&mu_);
  return known_;
}

void LoraList::Set(Loras loras, ModelDescription model) {
  auto known = std::make_shared<Known>(Known{.loras = std::move(loras), .model = std::move(model)});
  known->model.loras.clear();
  for (const auto& [id, lora] : known->loras) {
    if (id != kDistilledLora) known->model.loras.push_back(id);  // only recipes use that one, not clients
  }
  absl::MutexLock lock(&mu_);
  known_ = std::move(known);
}

void LoraList::Replace(Loras loras) { Set(std::move(loras), Get()->model); }

absl::Status CheckDigests(const Loras& loras, const GenerationRequest& request) {
  for (size_t i = 0; i < request.loras.size(); ++i) {
    const LoraInput& asked = request.loras[i];
    if (asked.digest.empty()) continue;
    const auto found = loras.find(asked.id);
    if (found == loras.end()) {
      return absl::FailedPreconditionError(
          Cat("loras[", i, "].id: ", asked.id, " is not here any more; it was ", asked.digest,
              "; put the file back into lora_folder, or ask for one that `kinora models` lists"));
    }
    const std::string& digest = found->second->digest();
    if (digest.empty() || digest == asked.digest) continue;
    return absl::FailedPreconditionError(Cat("loras[", i, "].digest: the file of ", asked.id, " is ", digest,
                                             " now; the request was for ", asked.digest,
                                             "; ask again with the digest that `kinora models` lists, or put the "
                                             "earlier file back into lora_folder"));
  }
  return absl::OkStatus();
}

void OpenFor(const Loras& loras, RunPlan& plan) {
  for (StagePlan& stage : plan.stages) {
    for (AppliedLora& applied : stage.loras) {
      const auto found = loras.find(applied.id);
      KINORA_CHECK(found != loras.end()) << "no LoRA " << applied.id;
      applied.lora = found->second;
    }
  }
}

}  // namespace kinora
