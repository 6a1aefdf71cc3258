// From a noise level to the modulation of every sublayer (AdaLN-single, PixArt-α §2.3;
// ltx_core/model/transformer/adaln.py).
#ifndef KINORA_ENGINE_MODEL_ADALN_H_
#define KINORA_ENGINE_MODEL_ADALN_H_

#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class AdaLn {
 public:
  // Reads emb.timestep_embedder.linear_{1,2} and linear under `weights`. Forward computes `slots` rows of `width`.
  static absl::StatusOr<AdaLn> Load(WeightLoader weights, int64_t width, int64_t slots);

  // timesteps: [rows] f32, already scaled (sigma · 1000)
  // params:    [rows, slots·width] f32
  // embedded:  [rows, width] f32, added to the output head's table; undefined: not wanted
  void Forward(Exec& exec, const Tensor& timesteps, Tensor params, Tensor embedded) const;

 private:
  Weight in_, hidden_, out_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_ADALN_H_
