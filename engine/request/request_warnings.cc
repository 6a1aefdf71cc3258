#include "engine/request/request_warnings.h"

#include "engine/base/strings.h"
#include "engine/request/distilled_share.h"

namespace kinora {
namespace {

// For a dev model without its distilled LoRA in a recipe with a distilled model's few steps. Recipes that need the LoRA
// in a later stage are rejected without it.
std::string UndistilledWarning(const ModelDescription& model, const GenerationRequest& request) {
  if (model.kind != "dev" || model.parts.distilled_lora || FirstDistilledShare(request.recipe) == 0) return "";
  return Cat(RecipeName(request.recipe),
             " takes few steps without guidance, as distilled weights allow, but this is a dev model without its "
             "distilled LoRA (--model distilled_lora=FILE, or --worker-model in a frontend, adds it), so the clip may "
             "not follow the prompt",
             request.loras.empty() ? "" : ", unless one of the request's LoRAs distils it");
}

}  // namespace

std::vector<std::string> RequestWarnings(const ModelDescription& model, const GenerationRequest& request) {
  std::vector<std::string> warnings;
  for (std::string warning : {UntrainedShapeWarning(model, request), UndistilledWarning(model, request)}) {
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }
  return warnings;
}

}  // namespace kinora
