// The LoRAs that requests of a loaded model may name, which others may come to and leave while it runs.
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
    ModelDescription model;  // with their ids
  };

  LoraList(Loras loras, ModelDescription model) { Set(std::move(loras), std::move(model)); }

  // What is known now, which stays as it is.
  std::shared_ptr<const Known> Get() const;
  // All of them: what is not in `loras` is refused from now on. Plans that were made before keep theirs.
  void Replace(Loras loras);

 private:
  void Set(Loras loras, ModelDescription model);

  mutable absl::Mutex mu_;
  std::shared_ptr<const Known> known_ ABSL_GUARDED_BY(mu_);
};

// FailedPrecondition naming a LoRA whose file is not the one that the request was taken for (LoraInput::digest).
absl::Status CheckDigests(const Loras& loras, const GenerationRequest& request);

// Gives the plan's stages the LoRAs that they name, of a request that was resolved with the same list.
void OpenFor(const Loras& loras, RunPlan& plan);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_LORA_LIST_H_
