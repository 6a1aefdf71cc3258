// The LoRAs that requests to a loaded model may name. The list may change while the model runs.
#ifndef KINORA_ENGINE_PIPELINE_LORA_LIST_H_
#define KINORA_ENGINE_PIPELINE_LORA_LIST_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/run_plan.h"
#include "engine/request/model_description.h"
#include "engine/request/request.h"
#include "engine/weights/lora.h"

namespace kinora {

// Thread-safe.
class LoraList {
 public:
  struct Known {
    Loras loras;
    ModelDescription model;  // lists their ids
  };

  LoraList(Loras loras, ModelDescription model) { Set(std::move(loras), std::move(model)); }

  // Returns an immutable snapshot of the current list.
  std::shared_ptr<const Known> Get() const;
  // Replaces the list: requests for other LoRAs are rejected from now on. Existing plans keep their LoRAs.
  void Replace(Loras loras);

 private:
  void Set(Loras loras, ModelDescription model);

  mutable absl::Mutex mu_;
  std::shared_ptr<const Known> known_ ABSL_GUARDED_BY(mu_);
};

// Fails with FailedPrecondition, naming the LoRA, if a LoRA with a digest is no longer in `loras`, or if its file is
// not the one that the request was made for (LoraInput::digest).
absl::Status CheckDigests(const Loras& loras, const GenerationRequest& request);

// Sets AppliedLora::lora in the plan's stages. The plan's request must have been resolved with the same list.
void OpenFor(const Loras& loras, RunPlan& plan);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_LORA_LIST_H_
