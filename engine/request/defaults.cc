#include "engine/request/defaults.h"

namespace kinora {
namespace {

void FillSteps(const RecipeDescription& recipe, GenerationRequest& r) {
  if (r.num_inference_steps != 0) return;
  if (!r.sigmas.empty()) {
    r.num_inference_steps = static_cast<int32_t>(r.sigmas.size()) - 1;
  } else if (!recipe.fixed_sigmas.empty()) {
    r.num_inference_steps = static_cast<int32_t>(recipe.fixed_sigmas.size()) - 1;
  } else {
    r.num_inference_steps = recipe.defaults.num_inference_steps;
  }
}

void FillGuidance(const std::optional<GuidanceParams>& defaults, std::optional<GuidanceParams>& guidance) {
  if (!guidance.has_value()) guidance = defaults.value_or(GuidanceParams{});
  if (guidance->NeedsPerturbed() && guidance->stg_blocks.empty() && defaults.has_value()) {
    guidance->stg_blocks = defaults->stg_blocks;
  }
}

}  // namespace

GenerationRequest WithDefaults(const ModelDescription& model, const GenerationRequest& asked) {
  GenerationRequest r = asked;
  if (r.recipe == Recipe::kUnspecified) r.recipe = model.default_recipe;
  const RecipeDescription* recipe = model.Find(r.recipe, r.upsampler);
  if (recipe == nullptr) return r;
  const GenerationRequest& defaults = recipe->defaults;
  r.upsampler = recipe->upsampler;
  if (r.width == 0) r.width = defaults.width;
  if (r.height == 0) r.height = defaults.height;
  if (r.num_frames == 0) r.num_frames = defaults.num_frames;
  if (r.frame_rate == 0) r.frame_rate = defaults.frame_rate;
  FillSteps(*recipe, r);
  for (ConditionInput& condition : r.conditions) {
    if (condition.media == ConditionInput::Media::kImage && !condition.crf.has_value()) condition.crf = kImageCrf;
  }
  if (!recipe->guided) return r;
  FillGuidance(defaults.video_guidance, r.video_guidance);
  FillGuidance(defaults.audio_guidance, r.audio_guidance);
  const bool negative = r.video_guidance->NeedsUncond() || r.audio_guidance->NeedsUncond();
  if (negative && !r.negative_prompt.has_value()) r.negative_prompt = defaults.negative_prompt;
  return r;
}

}  // namespace kinora
