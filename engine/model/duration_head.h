// Predicts how long the clip of a prompt should be, from its contexts (LTX-2.5, ltx_core/duration_head): a learned
// query attends to the projected rows of both contexts, and an MLP turns the result into the logarithm of the seconds.
#ifndef KINORA_ENGINE_MODEL_DURATION_HEAD_H_
#define KINORA_ENGINE_MODEL_DURATION_HEAD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/base/per_modality.h"
#include "engine/config/duration_head_config.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class DurationHead {
 public:
  // Reads everything under `weights` (duration_head).
  static absl::StatusOr<DurationHead> Load(WeightLoader weights, const DurationHeadConfig& config);

  // context: of the positive prompt, all rows, as the connectors make them; video undefined: of the sound alone. Waits
  // for the device. Fails with Internal if the result is not a finite number.
  absl::StatusOr<double> Seconds(Exec& exec, const PerModality<Tensor>& context) const;

 private:
  struct Source {  // of one modality
    Weight input;
    Parameter mark;  // [hidden] f32, added to every row
  };
  static absl::StatusOr<Source> LoadSource(WeightLoader& weights, const char* name, int64_t width, int64_t hidden);
  void Project(Exec& exec, const Source& source, const Tensor& context, Tensor tokens) const;
  // out = x · in_projᵀ + bias: queries, keys and values side by side.
  void ProjectIn(Exec& exec, const Tensor& x, Tensor out) const;

  DurationHeadConfig config_;
  Source video_, audio_;
  Parameter ones_;     // [3·hidden] f32
  Parameter queries_;  // [queries, hidden] f32
  Weight in_, out_, mlp_hidden_, mlp_out_;
  Parameter in_bias_;  // [3·hidden] f32
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_DURATION_HEAD_H_
