#include "engine/diffusion/guidance.h"

#include <algorithm>

namespace kinora {

const char* PassName(Pass pass) {
  switch (pass) {
    case Pass::kUncond:
      return "uncond";
    case Pass::kCond:
      return "cond";
    case Pass::kPerturbed:
      return "perturbed";
    case Pass::kIsolated:
      break;
  }
  return "isolated";
}

PassList PassesFor(const GuidanceScales& video, const GuidanceScales& audio) {
  PassList passes;
  if (video.cfg != 1 || audio.cfg != 1) passes.push_back(Pass::kUncond);
  passes.push_back(Pass::kCond);
  if (video.stg != 0 || audio.stg != 0) passes.push_back(Pass::kPerturbed);
  if (video.modality != 1 || audio.modality != 1) passes.push_back(Pass::kIsolated);
  return passes;
}

std::vector<float> WeightsFor(const GuidanceScales& scales, const PassList& passes) {
  std::vector<float> weights;
  for (const Pass pass : passes) {
    switch (pass) {
      case Pass::kUncond:
        weights.push_back(static_cast<float>(1 - scales.cfg));
        break;
      case Pass::kCond:
        weights.push_back(static_cast<float>(1 + (scales.cfg - 1) + scales.stg + (scales.modality - 1)));
        break;
      case Pass::kPerturbed:
        weights.push_back(static_cast<float>(-scales.stg));
        break;
      case Pass::kIsolated:
        weights.push_back(static_cast<float>(1 - scales.modality));
        break;
    }
  }
  weights.push_back(static_cast<float>(scales.rescale));
  return weights;
}

int CondIndex(const PassList& passes) {
  return static_cast<int>(std::find(passes.begin(), passes.end(), Pass::kCond) - passes.begin());
}

}  // namespace kinora
