// From guidance scales to passes of the transformer and their weights (docs/model.md "Guidance";
// ltx_core/components/guiders.py MultiModalGuider).
#ifndef KINORA_ENGINE_DIFFUSION_GUIDANCE_H_
#define KINORA_ENGINE_DIFFUSION_GUIDANCE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace kinora {

// p = c + (cfg − 1)(c − u) + stg (c − p_stg) + (modality − 1)(c − p_modality), then rescaled towards c's deviation.
struct GuidanceScales {
  double cfg = 1, stg = 0, modality = 1, rescale = 0;
};

enum class Pass : uint8_t { kUncond, kCond, kPerturbed, kIsolated };
using PassList = absl::InlinedVector<Pass, 4>;
const char* PassName(Pass pass);  // "uncond", "cond", "perturbed", "isolated"

// The passes that some modality needs, in the order in which they are batched. Conditional alone without guidance.
PassList PassesFor(const GuidanceScales& video, const GuidanceScales& audio);
// What Ops::CombineGuidance reads: the modality's weights of those passes, which sum to 1, then the rescale.
std::vector<float> WeightsFor(const GuidanceScales& scales, const PassList& passes);
// Where the conditional pass is.
int CondIndex(const PassList& passes);

}  // namespace kinora

#endif  // KINORA_ENGINE_DIFFUSION_GUIDANCE_H_
