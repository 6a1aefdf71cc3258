// Linear → tanh-GELU → Linear, in the transformer and the connectors (diffusers FeedForward "gelu-approximate";
// ltx_core/model/transformer/feed_forward.py). Tensor ranks divide the hidden columns, so the only exchange between
// ranks is the sum of the results.
#ifndef KINORA_ENGINE_MODEL_FEED_FORWARD_H_
#define KINORA_ENGINE_MODEL_FEED_FORWARD_H_

#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class FeedForward {
 public:
  // Reads net.0.proj [hidden, width] and net.2 [width, hidden] under `weights`.
  static absl::StatusOr<FeedForward> Load(WeightLoader weights, int64_t width, int64_t hidden, bool bias);

  // Adds down(gelu(up(x))) to the residual. x: [rows, width].
  void Forward(Exec& exec, const Tensor& x, const ResidualUpdate& update) const;

 private:
  Weight up_, down_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_FEED_FORWARD_H_
