// From the text encoder's hidden states to one row of features per token and modality (docs/model.md "Text projection";
// ltx_core/text_encoders/gemma/ feature_extractor.py). The reference stacks all states into rows of width·states and
// projects those; here the projection is a sum of one product a state, added up in float32 while the encoder runs, so
// the stack never exists.
//   LTX-2.0: a state is centred and divided by its range over the whole prompt; one projection serves both modalities.
//   LTX-2.3: a token's state is divided by its root mean square and scaled by √(features / width); a projection each.
#ifndef KINORA_ENGINE_MODEL_FEATURE_EXTRACTOR_H_
#define KINORA_ENGINE_MODEL_FEATURE_EXTRACTOR_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/per_modality.h"
#include "engine/model/config.h"
#include "engine/parallel/layer_relay.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class FeatureExtractor {
 public:
  struct Features {
    Tensor all;  // both, in one tensor
    // [tokens, width of the modality's connector] f32; the same memory in LTX-2.0. Video undefined: not wanted
    Tensor video, audio;
  };

  // Reads [video_|audio_]aggregate_embed under `weights` (text_projection); keeps what serves the states `held`.
  // InvalidArgument if one projection would have to serve connectors of different widths. kSound: what serves the video
  // alone is not held.
  static absl::StatusOr<FeatureExtractor> Load(WeightLoader weights, const ConnectorConfig& config,
                                               const LayerRun& held, Streams streams = Streams::kBoth);

  Features Alloc(ArenaScope& scope, int64_t tokens, Streams streams = Streams::kBoth) const;
  // Adds state `index` (0 first: it sets the sums), which is held, of packed prompts to their features. hidden:
  // [tokens, text_width]; lengths as for Gemma::Forward.
  void Add(Exec& exec, int64_t index, const Tensor& hidden, absl::Span<const int64_t> lengths,
           const Features& features) const;

 private:
  bool per_modality_ = false;
  int64_t text_width_ = 0, video_width_ = 0, audio_width_ = 0;
  LayerRun held_;
  std::vector<Weight> video_,
      audio_;  // one per state held [features, text_width]; that of state 0 has the bias; LTX-2.0: video_ alone
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_FEATURE_EXTRACTOR_H_
