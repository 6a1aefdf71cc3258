#ifndef KINORA_ENGINE_REQUEST_DISTILLED_SHARE_H_
#define KINORA_ENGINE_REQUEST_DISTILLED_SHARE_H_

#include "engine/request/request.h"

namespace kinora {

// Strength of the model's distilled LoRA, if it has one, in the first denoising stage of a recipe.
constexpr double FirstDistilledShare(Recipe recipe) {
  if (recipe == Recipe::kHq) return 0.25;
  return recipe == Recipe::kDistilled || recipe == Recipe::kDistilledTwoStage ? 1 : 0;
}

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_DISTILLED_SHARE_H_
