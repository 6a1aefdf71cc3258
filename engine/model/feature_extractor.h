// Projects the text encoder's hidden states to one row of features per token and modality (docs/model.md "Text
// projection"; ltx_core/text_encoders/gemma/feature_extractor.py). The reference stacks all states into rows of
// width·states and projects those. Kinora adds up one product per state in float32 while the encoder runs, so it never
// stores the stack.
//   LTX-2.0: each state is centred and divided by its range over the whole prompt; both modalities share a projection.
//   LTX-2.3: each token's state is divided by its root mean square and scaled by √(features / width); each modality
//   has its own projection.
#ifndef KINORA_ENGINE_MODEL_FEATURE_EXTRACTOR_H_
#define KINORA_ENGINE_MODEL_FEATURE_EXTRACTOR_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/per_modality.h"
#include "engine/config/model_config.h"
#include "engine/parallel/layer_relay.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class FeatureExtractor {
 public:
  struct Features {
    Tensor all;  // the memory of both
    // [tokens, width of the modality's connector] f32; in LTX-2.0 both are the same memory. Video undefined: not wanted
    Tensor video, audio;
  };

  // Reads [video_|audio_]aggregate_embed under `weights` (text_projection) for the states `held`. modalities: kSound
  // loads no projection that only video needs. Fails with InvalidArgument if one projection would have to serve
  // connectors of different widths.
  static absl::StatusOr<FeatureExtractor> Load(WeightLoader weights, const ConnectorConfig& config,
                                               const LayerRun& held, Modalities modalities = Modalities::kBoth);

  Features Alloc(ArenaScope& scope, int64_t tokens, Modalities modalities = Modalities::kBoth) const;
  // Adds the products of state `index`, which must be one of those held, to the features of packed prompts. State 0
  // must come first: it sets the sums. hidden: [tokens, text_width]. lengths: as in LanguageModel::Forward.
  void Add(Exec& exec, int64_t index, const Tensor& hidden, absl::Span<const int64_t> lengths,
           const Features& features) const;

 private:
  bool per_modality_ = false;
  int64_t text_width_ = 0, video_width_ = 0, audio_width_ = 0;
  LayerRun held_;
  // [features, text_width] per held state; the weight of state 0 has the bias. LTX-2.0 uses only video_.
  std::vector<Weight> video_, audio_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_FEATURE_EXTRACTOR_H_
