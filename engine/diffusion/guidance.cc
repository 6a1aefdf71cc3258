#include "engine/diffusion/guidance.h"

namespace kinora {

PassList PassesFor(const GuidanceScales& video, const GuidanceScales& audio) {
  PassList passes;
  if (video.cfg != 1 || audio.cfg != 1) passes.push_back(Pass::kUncond);
  passes.push_back(Pass::kCond);
  if (video.stg != 0 || audio.stg != 0) passes.push_back(Pass::kPerturbed);
  if (video.modality != 1 || audio.modality != 1) passes.push_back(Pass::kIsolated);
  return passes;
}

Ops::GuidanceWeights WeightsFor(const GuidanceScales& scales, const PassList& passes) {
  Ops::GuidanceWeights weights{.passes = static_cast<int>(passes.size()),
                               .rescale = static_cast<float>(scales.rescale)};
  for (size_t i = 0; i < passes.size(); ++i) {
    switch (passes[i]) {
      case Pass::kUncond:
        weights.weight[i] = static_cast<float>(1 - scales.cfg);
        break;
      case Pass::kCond:
        weights.cond = static_cast<int>(i);
        weights.weight[i] = static_cast<float>(1 + (scales.cfg - 1) + scales.stg + (scales.modality - 1));
        break;
      case Pass::kPerturbed:
        weights.weight[i] = static_cast<float>(-scales.stg);
        break;
      case Pass::kIsolated:
        weights.weight[i] = static_cast<float>(1 - scales.modality);
        break;
    }
  }
  return weights;
}

}  // namespace kinora
