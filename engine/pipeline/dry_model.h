// The model without memory: shapes of weights and activations only. Says what a request will take and cost, by the very
// code that runs it.
#ifndef KINORA_ENGINE_PIPELINE_DRY_MODEL_H_
#define KINORA_ENGINE_PIPELINE_DRY_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/config.h"
#include "engine/model/tokenizer.h"
#include "engine/ops/backend.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/modules.h"
#include "engine/pipeline/run_plan.h"
#include "engine/request/model_description.h"
#include "engine/weights/precision.h"

namespace kinora {

class DryModel {  // made once, then read by any thread
 public:
  struct Options {
    BackendTraits traits;
    Precision precision;
    int64_t text_cache_bytes = 0;
    Residence text_encoder = Residence::kResident;
    Streams streams = Streams::kBoth;
  };
  // mesh: whose rank it speaks for. Errors: as Modules::Load's; Unimplemented if the backend evicts nothing and should.
  static absl::StatusOr<DryModel> Make(const ModelConfig& config, const ModelDescription& description, const Mesh& mesh,
                                       const Options& options);

  // asked: resolved; of one whose sound was not read yet the default length. tokenizer: null for the cost with the
  // longest prompts.
  absl::StatusOr<RunPlan> Plan(const GenerationRequest& asked, const Tokenizer* tokenizer) const;

  const ModelDescription& description() const { return description_; }
  const BackendTraits& traits() const { return options_.traits; }

 private:
  absl::StatusOr<std::array<int64_t, 2>> CountTokens(const Tokenizer& tokenizer,
                                                     const GenerationRequest& request) const;

  ModelConfig config_;
  ModelDescription description_;
  Options options_;
  std::unique_ptr<Mesh> mesh_;
  Modules modules_;
  int64_t weight_bytes_ = 0, evicted_bytes_ = 0;  // of the rank that holds the most
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DRY_MODEL_H_
