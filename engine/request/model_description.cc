#include "engine/request/model_description.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

absl::Status NotYet(std::string_view field) {
  return absl::UnimplementedError(absl::StrCat(std::string(field), ": not available yet"));
}

absl::Status CheckAvailable(const GenerationRequest& r) {
  if (!r.conditions.empty()) return NotYet("conditions");
  if (!r.loras.empty()) return NotYet("loras");
  if (r.retake.has_value()) return NotYet("retake");
  if (r.audio.has_value()) return NotYet("audio");
  if (r.audio_only) return NotYet("audio_only");
  if (!r.upsampler.empty()) return NotYet("upsampler");
  return absl::OkStatus();
}

// The nearest a·k + b to `value` in [a·1 + b or b, max].
int64_t Nearest(int64_t value, int64_t multiple, int64_t offset, int64_t max) {
  const int64_t least = offset > 0 ? offset : multiple;
  const int64_t k = (std::clamp(value, least, std::max(least, max)) - offset + multiple / 2) / multiple;
  int64_t nearest = std::max(least, k * multiple + offset);
  if (nearest > max) nearest -= multiple;
  return nearest;
}

absl::Status CheckSize(std::string_view field, int64_t value, int64_t multiple, int64_t offset, int64_t max) {
  if (value > 0 && value <= max && (value - offset) % multiple == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), ": ", value, " is not ",
                   offset > 0 ? absl::StrCat(multiple, "·k + ", offset) : absl::StrCat("a multiple of ", multiple),
                   " up to ", max, "; the nearest valid value is ", Nearest(value, multiple, offset, max)));
}

absl::Status ResolveGuidance(const ModelDescription& model, const std::string& field, bool guided,
                             const std::optional<GuidanceParams>& defaults, std::optional<GuidanceParams>& guidance) {
  if (!guidance.has_value()) guidance = guided ? defaults.value_or(GuidanceParams{}) : GuidanceParams{};
  GuidanceParams& g = *guidance;
  const std::pair<const char*, double> terms[] = {{"cfg_scale", g.cfg_scale},
                                                  {"stg_scale", g.stg_scale},
                                                  {"modality_scale", g.modality_scale},
                                                  {"rescale", g.rescale}};
  for (const auto& [name, value] : terms) {
    if (!std::isfinite(value))
      return absl::InvalidArgumentError(absl::StrCat(field, ".", name, ": not a finite number"));
  }
  if (g.rescale < 0 || g.rescale > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".rescale: ", g.rescale, " is outside 0..1; the nearest valid value is ", g.rescale < 0 ? 0 : 1));
  }
  if (g.skip_step < 0 || g.skip_step > 999) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".skip_step: ", g.skip_step,
                                                   " is outside 0..999; the nearest valid value is ",
                                                   g.skip_step < 0 ? 0 : 999));
  }
  if (!guided && (g.NeedsUncond() || g.NeedsPerturbed() || g.NeedsModality())) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": the DISTILLED recipe has no guidance; leave it out or turn every term off"));
  }
  if (g.NeedsPerturbed() && g.stg_blocks.empty()) g.stg_blocks = model.default_stg_blocks;
  for (size_t i = 0; i < g.stg_blocks.size(); ++i) {
    if (g.stg_blocks[i] < 0 || g.stg_blocks[i] >= model.layers) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".stg_blocks[", i, "]: ", g.stg_blocks[i],
                                                     " is not a block of this model; it has 0..", model.layers - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSigmas(const std::vector<double>& sigmas) {
  if (sigmas.size() < 2) return absl::InvalidArgumentError("sigmas: at least two values are needed, the last 0");
  for (size_t i = 0; i < sigmas.size(); ++i) {
    if (!std::isfinite(sigmas[i]))
      return absl::InvalidArgumentError(absl::StrCat("sigmas[", i, "]: not a finite number"));
    if (i > 0 && sigmas[i] >= sigmas[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("sigmas[", i, "]: ", sigmas[i], " does not descend from ", sigmas[i - 1]));
    }
  }
  if (sigmas.front() > 1) return absl::InvalidArgumentError(absl::StrCat("sigmas[0]: ", sigmas[0], " is above 1"));
  if (sigmas.back() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("sigmas: the last value is ", sigmas.back(), ", it must be 0"));
  }
  return absl::OkStatus();
}

absl::Status ResolveSteps(const ModelDescription& model, bool distilled, GenerationRequest& r) {
  KINORA_RETURN_IF_ERROR(r.sigmas.empty() ? absl::OkStatus() : CheckSigmas(r.sigmas));
  const int64_t fixed = !r.sigmas.empty() ? static_cast<int64_t>(r.sigmas.size()) - 1
                        : distilled       ? static_cast<int64_t>(model.distilled_sigmas.size()) - 1
                                          : 0;
  if (r.sigmas.size() > 1000) return absl::InvalidArgumentError("sigmas: more than 1000 values");
  if (fixed > 0) {
    if (r.num_inference_steps != 0 && r.num_inference_steps != fixed) {
      return absl::InvalidArgumentError(absl::StrCat("num_inference_steps: ", r.num_inference_steps,
                                                     " contradicts the sigmas; the valid values are 0 and ", fixed));
    }
    r.num_inference_steps = static_cast<int32_t>(fixed);
    return absl::OkStatus();
  }
  if (r.num_inference_steps == 0) r.num_inference_steps = model.defaults.num_inference_steps;
  if (r.num_inference_steps < 1 || r.num_inference_steps > 999) {
    return absl::InvalidArgumentError(absl::StrCat("num_inference_steps: ", r.num_inference_steps,
                                                   " is outside 1..999; the nearest valid value is ",
                                                   r.num_inference_steps < 1 ? 1 : 999));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationRequest> ResolveRequest(const ModelDescription& model, const GenerationRequest& request) {
  GenerationRequest r = request;
  if (r.recipe == Recipe::kUnspecified) {
    if (model.kind.empty()) {
      return absl::InvalidArgumentError(
          "recipe: RECIPE_UNSPECIFIED needs to know the model's kind, which its files do not say; give the recipe, or "
          "kind=dev or "
          "kind=distilled with the model");
    }
    r.recipe = model.kind == "distilled" ? Recipe::kDistilled : Recipe::kOneStage;
  }
  if (std::find(model.recipes.begin(), model.recipes.end(), r.recipe) == model.recipes.end()) {
    return NotYet(absl::StrCat("recipe: ", std::string(RecipeName(r.recipe))));
  }
  KINORA_RETURN_IF_ERROR(CheckAvailable(r));
  const bool distilled = r.recipe == Recipe::kDistilled;
  if (r.width == 0) r.width = model.defaults.width;
  if (r.height == 0) r.height = model.defaults.height;
  if (r.num_frames == 0) r.num_frames = model.defaults.num_frames;
  if (r.frame_rate == 0) r.frame_rate = model.defaults.frame_rate;
  KINORA_RETURN_IF_ERROR(CheckSize("width", r.width, model.size_multiple, 0, model.max_width));
  KINORA_RETURN_IF_ERROR(CheckSize("height", r.height, model.size_multiple, 0, model.max_height));
  KINORA_RETURN_IF_ERROR(CheckSize("num_frames", r.num_frames, model.frame_multiple, 1, model.max_frames));
  if (!(r.frame_rate >= 1 && r.frame_rate <= 240)) {  // false for NaN too
    return absl::InvalidArgumentError(absl::StrCat("frame_rate: ", r.frame_rate, " is not a number in 1..240"));
  }
  if (r.schedule_tokens < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule_tokens: ", r.schedule_tokens, " is below -1; the nearest valid value is -1"));
  }
  KINORA_RETURN_IF_ERROR(ResolveSteps(model, distilled, r));
  KINORA_RETURN_IF_ERROR(
      ResolveGuidance(model, "video_guidance", !distilled, model.defaults.video_guidance, r.video_guidance));
  KINORA_RETURN_IF_ERROR(
      ResolveGuidance(model, "audio_guidance", !distilled, model.defaults.audio_guidance, r.audio_guidance));
  const bool needs_negative = r.video_guidance->NeedsUncond() || r.audio_guidance->NeedsUncond();
  if (needs_negative && !r.negative_prompt.has_value()) r.negative_prompt = model.default_negative_prompt;
  return r;
}

}  // namespace kinora
