// A model without memory: only the shapes of weights and activations. Computes what a request will need and cost, with
// the same code that runs it.
#ifndef KINORA_ENGINE_PIPELINE_DRY_MODEL_H_
#define KINORA_ENGINE_PIPELINE_DRY_MODEL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/config/model_config.h"
#include "engine/ops/backend.h"
#include "engine/ops/one_time_work.h"
#include "engine/parallel/mesh.h"
#include "engine/pipeline/modules.h"
#include "engine/pipeline/run_plan.h"
#include "engine/request/model_description.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/precision.h"

namespace kinora {

class DryModel {  // thread-safe
 public:
  struct Options {
    BackendTraits traits;
    Precision precision;
    int64_t text_cache_bytes = 0;
    Residence text_encoder = Residence::kResident;
    Modalities modalities = Modalities::kBoth;
    DecoderBorder decoder_border = DecoderBorder::kShift;
    bool untiled_decode = false;
    std::function<std::unique_ptr<ListingBackend>()> make_listing{};  // empty: plans list no one-time work
  };
  // mesh: of the rank that is modelled. Fails like Modules::Load, or with Unimplemented if `options` evicts the text
  // encoder but the backend cannot evict weights.
  static absl::StatusOr<DryModel> Make(const ModelConfig& config, const ModelDescription& description, const Mesh& mesh,
                                       const Options& options);

  // asked: resolved. If its number of frames is unknown, the plan is for AssumedFrames. tokenizer: null to assume the
  // longest prompts.
  absl::StatusOr<RunPlan> Plan(const GenerationRequest& asked, const Tokenizer* tokenizer) const;

  const ModelDescription& description() const { return description_; }
  const BackendTraits& traits() const { return options_.traits; }
  bool untiled_decode() const { return options_.untiled_decode; }

 private:
  // Arguments: as in Plan.
  absl::StatusOr<RunPlan> PlanWithoutCosts(const GenerationRequest& asked, const Tokenizer* tokenizer) const;
  absl::StatusOr<std::array<int64_t, 2>> CountTokens(const Tokenizer* tokenizer,
                                                     const GenerationRequest& request) const;

  ModelConfig config_;
  ModelDescription description_;
  Options options_;
  std::unique_ptr<Mesh> mesh_;
  Modules modules_;
  int64_t weight_bytes_ = 0, evicted_bytes_ = 0;  // on the rank that holds the most
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_DRY_MODEL_H_
