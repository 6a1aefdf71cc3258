// Turns a VAE's own latent into the transformer's: z = (x − μ) / σ per channel (ltx_core
// PerChannelStatistics.normalize).
#ifndef KINORA_ENGINE_MODEL_LATENT_NORMALIZER_H_
#define KINORA_ENGINE_MODEL_LATENT_NORMALIZER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/parallel/exec.h"
#include "engine/weights/weight_loader.h"

namespace kinora {

class LatentNormalizer {
 public:
  LatentNormalizer() = default;
  // Reads {mean,std}-of-means [channels] under `statistics` (per_channel_statistics of a VAE).
  static absl::StatusOr<LatentNormalizer> Load(WeightLoader& statistics, int64_t channels);

  // x, out: [rows, channels]; may be the same.
  void Forward(Exec& exec, const Tensor& x, Tensor out) const { exec.ops.Affine(x, scale_, shift_, out); }

 private:
  Parameter scale_, shift_;  // [channels]: 1 / σ, −μ / σ
};

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_LATENT_NORMALIZER_H_
