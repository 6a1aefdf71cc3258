// Turns guidance scales into passes of the transformer and their weights (docs/model.md "Guidance";
// ltx_core/components/guiders.py MultiModalGuider).
#ifndef KINORA_ENGINE_DIFFUSION_GUIDANCE_H_
#define KINORA_ENGINE_DIFFUSION_GUIDANCE_H_

#include <cstdint>
#include <vector>

namespace kinora {

// x₀ = c + (cfg − 1)(c − u) + stg·(c − p) + (modality − 1)(c − m), then rescaled towards c's deviation.
struct GuidanceScales {
  double cfg = 1, stg = 0, modality = 1, rescale = 0;
};

enum class Pass : uint8_t { kUncond, kCond, kPerturbed, kIsolated };
using PassList = std::vector<Pass>;
const char* PassName(Pass pass);  // "uncond", "cond", "perturbed", "isolated"

// Returns the passes that at least one modality needs, in batch order. Without guidance: only the conditional pass.
PassList PassesFor(const GuidanceScales& video, const GuidanceScales& audio);
// Returns the input of Ops::CombineGuidance: the modality's weights of these passes, which sum to 1, then the rescale.
std::vector<float> WeightsFor(const GuidanceScales& scales, const PassList& passes);
// Returns the index of the conditional pass.
int CondIndex(const PassList& passes);

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_GUIDANCE_H_
