// Models and estimates as JSON.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/request/model_description.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/field_json.h"
#include "server/gateway/field_names.h"
#include "server/gateway/video_body.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

Json RecipeWord(v1::Generation::Recipe recipe) {
  const int value = recipe;
  if (value < 1 || value > static_cast<int>(std::size(kRecipeWords))) return nullptr;
  return kRecipeWords[value - 1];
}

template <typename List>
Json Strings(const List& list) {
  Json out = Json::array();
  for (const auto& text : list) out.push_back(text);
  return out;
}

Json PartsOf(const v1::ModelInfo::Parts& parts) {
  return {{"video_encoder", parts.video_encoder()},
          {"upsampler", parts.upsampler()},
          {"distilled_lora", parts.distilled_lora()},
          {"audio_encoder", parts.audio_encoder()},
          {"duration_head", parts.duration_head()}};
}

// The defaults of a recipe in the names of fields; without a prompt, which is not one.
Json DefaultsOf(const v1::ModelInfo& model, v1::Generation::Recipe recipe) {
  for (int i = 0; i < std::min(model.recipes_size(), model.recipe_defaults_size()); ++i) {
    if (model.recipes(i) != recipe) continue;
    Json fields = ToFields(model.recipe_defaults(i), v1::Output());
    fields.erase("prompt");
    return fields;
  }
  return Json::object();
}

Json LimitsOf(const v1::ModelInfo& model, const v1::ModelInfo::Limits& limits) {
  return {{"recipe", RecipeWord(limits.recipe())},
          {"upsampler", limits.upsampler().empty() ? Json(nullptr) : Json(limits.upsampler())},
          {"size_multiple", limits.size_multiple()},
          {"frame_multiple", limits.frame_multiple()},
          {"min_size", std::max(limits.min_size(), limits.size_multiple())},
          {"max_width", limits.max_width()},
          {"max_height", limits.max_height()},
          {"max_frames", limits.max_frames()},
          {"max_tokens", limits.max_tokens()},
          {"guided", limits.guided()},
          {"fixed_steps", limits.fixed_sigmas_size() > 0 ? Json(limits.fixed_sigmas_size() - 1) : Json(nullptr)},
          {"needs", PartsOf(limits.needs())},
          {"defaults", DefaultsOf(model, limits.recipe())}};
}

Json ModelJson(const v1::ModelInfo& model) {
  Json recipes = Json::array(), modalities = Json::array(), shapes = Json::array();
  for (const v1::ModelInfo::Limits& limits : model.limits()) recipes.push_back(LimitsOf(model, limits));
  for (const int modality : model.modalities()) {
    const auto value = static_cast<v1::ModelInfo::Modality>(modality);
    modalities.push_back(absl::AsciiStrToLower(v1::ModelInfo::Modality_Name(value)));
  }
  for (const v1::ModelInfo::Shape& shape : model.trained_shapes()) {
    shapes.push_back({{"width", shape.width()}, {"height", shape.height()}, {"num_frames", shape.num_frames()}});
  }
  return {{"id", model.id()},
          {"object", "model"},
          {"created", 0},  // a model has no date, but the OpenAI client requires one
          {"owned_by", "kinora"},
          {"family", model.family()},
          {"kind", model.kind()},
          {"default_recipe", RecipeWord(model.defaults().recipe())},
          {"recipes", std::move(recipes)},
          {"upsamplers", Strings(model.upsamplers())},
          {"loras", Strings(model.loras())},
          {"modalities", std::move(modalities)},
          {"parts", PartsOf(model.parts())},
          {"image_crf", model.has_image_crf() ? model.image_crf() : kImageCrf},
          {"blocks", model.blocks()},
          {"pixels_per_token", model.pixels_per_token()},
          {"frames_per_token", model.frames_per_token()},
          {"trained_shapes", std::move(shapes)}};
}

}  // namespace

std::string ModelBody(const v1::ModelInfo& model) { return ToText(ModelJson(model)); }

std::string ModelListBody(const v1::ListModelsResponse& models) {
  Json data = Json::array();
  for (const v1::ModelInfo& model : models.models()) data.push_back(ModelJson(model));
  return ToText({{"object", "list"}, {"data", std::move(data)}});
}

std::string EstimateBody(const v1::Estimate& estimate, std::string_view model) {
  Json nearest = nullptr;
  if (estimate.has_nearest()) {
    nearest = {{"width", estimate.nearest().width()},
               {"height", estimate.nearest().height()},
               {"num_frames", estimate.nearest().num_frames()}};
  }
  Json parameters = ToFields(estimate.effective(), v1::Output());
  parameters["model"] = model;
  return ToText({{"object", "video.estimate"},
                 {"model", model},
                 {"estimated_seconds", estimate.seconds()},
                 {"device_bytes", estimate.device_bytes()},
                 {"flops", estimate.flops()},
                 {"fits", estimate.fits()},
                 {"problems", Strings(estimate.problems())},
                 {"nearest", std::move(nearest)},
                 {"parameters", std::move(parameters)}});
}

}  // namespace kinora
