// Linear → tanh-GELU → Linear (diffusers FeedForward "gelu-approximate"; ltx_core/model/transformer/feed_forward.py).
// The transformer's and the connectors'. Split over tensor ranks by the hidden columns: one sum at the end, nothing
// gathered between the halves.
#ifndef KINORA_ENGINE_MODEL_FEED_FORWARD_H_
#define KINORA_ENGINE_MODEL_FEED_FORWARD_H_

#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class FeedForward {
 public:
  // Reads net.0.proj [hidden, width] and net.2 [width, hidden] under `weights`.
  static absl::StatusOr<FeedForward> Load(WeightLoader weights, int64_t width, int64_t hidden, bool bias);

  // down(gelu(up(x))) goes to the residual. x: [rows, width].
  void Forward(Exec& exec, const Tensor& x, const ResidualUpdate& update) const;

 private:
  Weight up_, down_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_FEED_FORWARD_H_
