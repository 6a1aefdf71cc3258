#include "server/request/model_conversion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/request/distilled_share.h"
#include "server/request/request_conversion.h"

namespace kinora {
namespace {

v1::ModelInfo::Parts FromParts(const ModelParts& parts) {
  v1::ModelInfo::Parts out;
  out.set_video_encoder(parts.video_encoder);
  out.set_upsampler(parts.upsampler);
  out.set_distilled_lora(parts.distilled_lora);
  out.set_audio_encoder(parts.audio_encoder);
  out.set_duration_head(parts.duration_head);
  return out;
}

ModelParts ToParts(const v1::ModelInfo::Parts& parts) {
  return {.video_encoder = parts.video_encoder(),
          .upsampler = parts.upsampler(),
          .distilled_lora = parts.distilled_lora(),
          .audio_encoder = parts.audio_encoder(),
          .duration_head = parts.duration_head()};
}

v1::Generation FromDefaults(const GenerationRequest& defaults) {
  v1::Generation generation = ToGeneration(defaults);
  generation.clear_seed();  // drawn anew for each request
  return generation;
}

void AddRecipe(const RecipeDescription& recipe, v1::ModelInfo& info) {
  const auto number = static_cast<v1::Generation::Recipe>(recipe.recipe);
  v1::ModelInfo::Limits& limits = *info.add_limits();
  limits.set_recipe(number);
  limits.set_upsampler(recipe.upsampler);
  limits.set_size_multiple(recipe.size_multiple);
  limits.set_frame_multiple(recipe.frame_multiple);
  limits.set_min_size(recipe.min_size);
  limits.set_max_width(recipe.max_width);
  limits.set_max_height(recipe.max_height);
  limits.set_max_frames(recipe.max_frames);
  limits.set_max_tokens(recipe.max_tokens);
  limits.set_guided(recipe.guided);
  limits.mutable_fixed_sigmas()->Assign(recipe.fixed_sigmas.begin(), recipe.fixed_sigmas.end());
  *limits.mutable_needs() = FromParts(recipe.needs);
  if (std::find(info.recipes().begin(), info.recipes().end(), number) != info.recipes().end()) return;
  info.add_recipes(number);
  *info.add_recipe_defaults() = FromDefaults(recipe.defaults);
}

void ListUpsamplers(const ModelDescription& model, v1::ModelInfo& info) {
  for (const RecipeDescription& recipe : model.recipes) {
    const auto& known = info.upsamplers();
    if (recipe.upsampler.empty() || std::find(known.begin(), known.end(), recipe.upsampler) != known.end()) continue;
    info.add_upsamplers(recipe.upsampler);
  }
}

absl::Status Missing(const v1::ModelInfo& info, const std::string& field) {
  return absl::FailedPreconditionError(absl::StrCat("model ", info.id(), ": its description lacks ", field));
}

absl::StatusOr<RecipeDescription> ToRecipe(const v1::ModelInfo& info, const v1::ModelInfo::Limits& limits) {
  if (limits.size_multiple() <= 0) return Missing(info, "limits.size_multiple");
  if (limits.frame_multiple() <= 0) return Missing(info, "limits.frame_multiple");
  if (!limits.has_needs()) return Missing(info, "limits.needs");
  const v1::Generation* defaults = nullptr;
  for (const v1::Generation& candidate : info.recipe_defaults()) {
    if (candidate.recipe() == limits.recipe()) defaults = &candidate;
  }
  if (defaults == nullptr) return Missing(info, "recipe_defaults");
  v1::Generation seeded = *defaults;
  seeded.set_seed(0);
  RecipeDescription recipe{.recipe = static_cast<Recipe>(limits.recipe()),
                           .upsampler = limits.upsampler(),
                           .size_multiple = limits.size_multiple(),
                           .frame_multiple = limits.frame_multiple(),
                           .min_size = limits.min_size(),
                           .max_width = limits.max_width(),
                           .max_height = limits.max_height(),
                           .max_frames = limits.max_frames(),
                           .max_tokens = limits.max_tokens(),
                           .guided = limits.guided(),
                           .fixed_sigmas = {limits.fixed_sigmas().begin(), limits.fixed_sigmas().end()},
                           .needs = ToParts(limits.needs())};
  KINORA_ASSIGN_OR_RETURN(recipe.defaults, ToGenerationRequest(seeded));
  return recipe;
}

}  // namespace

v1::ModelInfo ToModelInfo(const ModelDescription& model, const std::string& id) {
  v1::ModelInfo info;
  info.set_id(id);
  info.set_family(model.family);
  info.set_kind(model.kind);
  info.set_blocks(model.blocks);
  info.set_pixels_per_token(model.pixels_per_token);
  info.set_frames_per_token(model.frames_per_token);
  if (model.makes_video) info.add_modalities(v1::ModelInfo::VIDEO);
  if (model.makes_audio) info.add_modalities(v1::ModelInfo::AUDIO);
  *info.mutable_parts() = FromParts(model.parts);
  info.mutable_loras()->Assign(model.loras.begin(), model.loras.end());
  v1::ModelInfo::Schedule& schedule = *info.mutable_schedule();
  schedule.set_base_shift(model.schedule.base_shift);
  schedule.set_max_shift(model.schedule.max_shift);
  schedule.set_base_tokens(model.schedule.base_tokens);
  schedule.set_max_tokens(model.schedule.max_tokens);
  schedule.set_terminal(model.schedule.terminal);
  info.set_image_crf(model.image_crf);
  for (const TrainedShape& shape : model.trained_shapes) {
    v1::ModelInfo::Shape& trained = *info.add_trained_shapes();
    trained.set_width(shape.width);
    trained.set_height(shape.height);
    trained.set_num_frames(shape.num_frames);
  }
  for (const RecipeDescription& recipe : model.recipes) AddRecipe(recipe, info);
  if (model.parts.upsampler) ListUpsamplers(model, info);
  const RecipeDescription* described = model.Find(model.default_recipe, "");
  if (described == nullptr && !model.recipes.empty()) described = &model.recipes[0];
  if (described != nullptr) *info.mutable_defaults() = FromDefaults(described->defaults);
  info.mutable_defaults()->set_recipe(static_cast<v1::Generation::Recipe>(model.default_recipe));
  return info;
}

double DistilledShareOf(v1::Generation::Recipe recipe) { return FirstDistilledShare(static_cast<Recipe>(recipe)); }

std::string LoraDigest(const v1::ModelInfo& info, const std::string& id) {
  const auto found = info.digests().find(absl::StrCat(kLoraDigest, id));
  return found == info.digests().end() ? "" : found->second;
}

absl::StatusOr<ModelDescription> ToModelDescription(const v1::ModelInfo& info) {
  if (info.blocks() <= 0) return Missing(info, "blocks");
  if (info.pixels_per_token() <= 0) return Missing(info, "pixels_per_token");
  if (info.frames_per_token() <= 0) return Missing(info, "frames_per_token");
  if (info.modalities().empty()) return Missing(info, "modalities");
  if (!info.has_parts()) return Missing(info, "parts");
  if (!info.has_schedule()) return Missing(info, "schedule");
  const auto default_recipe = info.defaults().recipe();
  if (!v1::Generation::Recipe_IsValid(default_recipe)) return Missing(info, "defaults.recipe");
  const auto makes = [&info](v1::ModelInfo::Modality modality) {
    return std::find(info.modalities().begin(), info.modalities().end(), modality) != info.modalities().end();
  };
  ModelDescription model{.family = info.family(),
                         .kind = info.kind(),
                         .default_recipe = static_cast<Recipe>(default_recipe),
                         .blocks = info.blocks(),
                         .pixels_per_token = info.pixels_per_token(),
                         .frames_per_token = info.frames_per_token(),
                         .makes_video = makes(v1::ModelInfo::VIDEO),
                         .makes_audio = makes(v1::ModelInfo::AUDIO),
                         .parts = ToParts(info.parts()),
                         .loras = {info.loras().begin(), info.loras().end()},
                         .schedule = {.base_shift = info.schedule().base_shift(),
                                      .max_shift = info.schedule().max_shift(),
                                      .base_tokens = info.schedule().base_tokens(),
                                      .max_tokens = info.schedule().max_tokens(),
                                      .terminal = info.schedule().terminal()}};
  if (info.has_image_crf()) model.image_crf = info.image_crf();
  for (const v1::ModelInfo::Shape& shape : info.trained_shapes()) {
    model.trained_shapes.push_back(
        {.width = shape.width(), .height = shape.height(), .num_frames = shape.num_frames()});
  }
  if (info.limits().empty()) return Missing(info, "limits");
  for (const v1::ModelInfo::Limits& limits : info.limits()) {
    KINORA_ASSIGN_OR_RETURN(RecipeDescription recipe, ToRecipe(info, limits));
    model.recipes.push_back(std::move(recipe));
  }
  return model;
}

}  // namespace kinora
