#include "server/frontend/api/generation_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/common/request_conversion.h"

namespace kinora {
namespace {

using Problems = std::vector<FieldViolation>;
using Recipe = v1::Generation::Recipe;

constexpr int32_t kMaxSteps = 999;  // as many sigmas as a request may give, less the final 0
constexpr double kMaxFrameRate = 1000;
constexpr int32_t kDistilledSteps = 8;  // eight fixed sigmas and the final 0
constexpr int64_t kPixelsPerToken = 32;
constexpr int64_t kFramesPerToken = 8;

bool HasGuidance(Recipe recipe) {
  return recipe == v1::Generation::ONE_STAGE || recipe == v1::Generation::TWO_STAGE || recipe == v1::Generation::HQ;
}

bool HasFixedSigmas(Recipe recipe) {
  return recipe == v1::Generation::DISTILLED || recipe == v1::Generation::DISTILLED_TWO_STAGE;
}

Recipe DefaultRecipe(const v1::ModelInfo& model) {
  if (model.defaults().recipe() != v1::Generation::RECIPE_UNSPECIFIED) return model.defaults().recipe();
  if (model.kind() == "distilled") return v1::Generation::DISTILLED;
  return model.kind() == "dev" ? v1::Generation::ONE_STAGE : v1::Generation::RECIPE_UNSPECIFIED;
}

// What the model sets in this recipe.
const v1::Generation& DefaultsOf(const v1::ModelInfo& model, Recipe recipe) {
  for (const v1::Generation& defaults : model.recipe_defaults()) {
    if (defaults.recipe() == recipe) return defaults;
  }
  return model.defaults();
}

const v1::ModelInfo::Limits* LimitsOf(const v1::ModelInfo& model, const v1::Generation& effective) {
  const v1::ModelInfo::Limits* any = nullptr;
  for (const v1::ModelInfo::Limits& limits : model.limits()) {
    if (limits.recipe() != effective.recipe()) continue;
    if (limits.upsampler() == effective.upsampler()) return &limits;
    if (any == nullptr) any = &limits;
  }
  return any;
}

bool UsesNegativePrompt(const v1::Guidance& guidance) { return guidance.has_cfg_scale() && guidance.cfg_scale() != 1; }

bool IsOff(const v1::Guidance& guidance) {
  return (!guidance.has_cfg_scale() || guidance.cfg_scale() == 1) && guidance.stg_scale() == 0 &&
         (!guidance.has_modality_scale() || guidance.modality_scale() == 1);
}

// A given guidance states what it wants; what it leaves out is off (video_generation.proto).
void SpellOut(const v1::Guidance& defaults, v1::Guidance& guidance) {
  if (!guidance.has_cfg_scale()) guidance.set_cfg_scale(1);
  if (!guidance.has_stg_scale()) guidance.set_stg_scale(0);
  if (!guidance.has_modality_scale()) guidance.set_modality_scale(1);
  if (!guidance.has_rescale()) guidance.set_rescale(0);
  if (!guidance.has_skip_step()) guidance.set_skip_step(0);
  if (guidance.stg_scale() != 0 && guidance.stg_blocks().empty()) {
    *guidance.mutable_stg_blocks() = defaults.stg_blocks();
  }
}

void FillGuidance(const v1::Generation& defaults, v1::Generation& out) {
  if (!HasGuidance(out.recipe())) return;
  // What the model states is spelled out as well: an effective generation, asked for again, is the same.
  if (!out.has_video_guidance() && defaults.has_video_guidance()) {
    *out.mutable_video_guidance() = defaults.video_guidance();
  }
  if (out.has_video_guidance()) SpellOut(defaults.video_guidance(), *out.mutable_video_guidance());
  if (!out.has_audio_guidance() && defaults.has_audio_guidance()) {
    *out.mutable_audio_guidance() = defaults.audio_guidance();
  }
  if (out.has_audio_guidance()) SpellOut(defaults.audio_guidance(), *out.mutable_audio_guidance());
  const bool negative = UsesNegativePrompt(out.video_guidance()) || UsesNegativePrompt(out.audio_guidance());
  if (!out.has_negative_prompt() && negative && defaults.has_negative_prompt()) {
    out.set_negative_prompt(defaults.negative_prompt());
  }
}

// `value` must be k·multiple + offset, k ≥ 1 (frames: k ≥ 0), up to `maximum` (0: none stated).
struct Grid {
  const char* field;
  int64_t value, multiple, offset, smallest, maximum;
};

bool CheckGrid(const Grid& grid, Problems& out) {
  const int64_t multiple = std::max<int64_t>(grid.multiple, 1);
  int64_t largest = grid.maximum > 0 ? grid.maximum : std::numeric_limits<int32_t>::max();
  largest = (largest - grid.offset) / multiple * multiple + grid.offset;
  const int64_t rounded = (grid.value - grid.offset + multiple / 2) / multiple * multiple + grid.offset;
  const int64_t nearest = std::clamp(rounded, std::min(grid.smallest, largest), largest);
  if (grid.value > largest) {
    out.push_back({grid.field, absl::StrCat(grid.value, " is too large; nearest: ", nearest)});
    return true;
  }
  if (grid.value < grid.smallest || (grid.value - grid.offset) % multiple != 0) {
    out.push_back(
        {grid.field,
         absl::StrCat(grid.value, grid.offset == 0 ? " is not a multiple of " : " is not 1 more than a multiple of ",
                      multiple, "; nearest: ", nearest)});
  }
  return false;
}

void CheckShape(const v1::ModelInfo& model, const v1::Generation& effective, Problems& out, bool& too_large) {
  const v1::ModelInfo::Limits none;
  const v1::ModelInfo::Limits* found = LimitsOf(model, effective);
  const v1::ModelInfo::Limits& limits = found == nullptr ? none : *found;
  const int64_t size = limits.size_multiple() > 0 ? limits.size_multiple() : kPixelsPerToken;
  const int64_t frames = limits.frame_multiple() > 0 ? limits.frame_multiple() : kFramesPerToken;
  const size_t before = out.size();
  too_large |= CheckGrid({"generation.width", effective.width(), size, 0, size, limits.max_width()}, out);
  too_large |= CheckGrid({"generation.height", effective.height(), size, 0, size, limits.max_height()}, out);
  too_large |= CheckGrid({"generation.num_frames", effective.num_frames(), frames, 1, 1, limits.max_frames()}, out);
  if (out.size() > before || limits.max_tokens() == 0) return;

  const int64_t per_frame = effective.width() / kPixelsPerToken * (effective.height() / kPixelsPerToken);
  const int64_t latent_frames = (effective.num_frames() - 1) / kFramesPerToken + 1;
  if (per_frame * latent_frames <= limits.max_tokens()) return;
  too_large = true;
  const int64_t fits = limits.max_tokens() / per_frame;  // latent frames of this size
  const int64_t per_step = std::max<int64_t>(1, frames / kFramesPerToken);
  const std::string nearest =
      fits < 1
          ? "reduce width or height"
          : absl::StrCat("nearest at this size: ", (fits - 1) / per_step * per_step * kFramesPerToken + 1, " frames");
  out.push_back({"generation.num_frames", absl::StrCat(per_frame * latent_frames, " video tokens; at most ",
                                                       limits.max_tokens(), "; ", nearest)});
}

void CheckSchedule(const v1::Generation& asked, const v1::Generation& effective, Problems& out) {
  const int count = asked.sigmas_size();
  const int32_t steps = asked.num_inference_steps();
  if (steps < 0 || steps > kMaxSteps) {
    out.push_back({"generation.num_inference_steps", absl::StrCat(steps, " is not within 1..", kMaxSteps,
                                                                  "; nearest: ", std::clamp(steps, 1, kMaxSteps))});
  } else if (count > 0 && steps != 0 && steps != count - 1) {
    out.push_back({"generation.num_inference_steps",
                   absl::StrCat(steps, " with ", count, " sigmas; nearest: ", count - 1, ", or leave it out")});
  } else if (count == 0 && HasFixedSigmas(effective.recipe()) && steps != 0 && steps != kDistilledSteps) {
    out.push_back(
        {"generation.num_inference_steps",
         absl::StrCat(steps, " with the fixed sigmas of the recipe; nearest: ", kDistilledSteps, ", or leave it out")});
  }
  if (asked.schedule_tokens() < -1) out.push_back({"generation.schedule_tokens", "must be −1 or more; nearest: -1"});
  if (count == 0) return;
  if (count < 2 || count > kMaxSigmas) {
    out.push_back({"generation.sigmas", absl::StrCat(count, " values; 2..", kMaxSigmas, ", the last one 0")});
    return;
  }
  for (int i = 0; i < count; ++i) {
    const double sigma = asked.sigmas(i);
    const bool in_range = sigma >= 0 && sigma <= 1;
    if (in_range && (i == 0 || sigma < asked.sigmas(i - 1))) continue;
    out.push_back({absl::StrCat("generation.sigmas[", i, "]"),
                   in_range ? "must be less than the one before" : absl::StrCat(sigma, " is not within 0..1")});
    return;
  }
  if (asked.sigmas(count - 1) != 0) {
    out.push_back({absl::StrCat("generation.sigmas[", count - 1, "]"), "the last one must be 0; nearest: 0"});
  }
}

void CheckGuidance(const char* field, bool given, const v1::Guidance& guidance, const v1::Generation& effective,
                   Problems& out) {
  if (!given) return;
  const auto add = [&](const char* name, std::string why) {
    out.push_back({absl::StrCat(field, name), std::move(why)});
  };
  if (!HasGuidance(effective.recipe()) && !IsOff(guidance)) {
    add("", absl::StrCat("the recipe ", v1::Generation::Recipe_Name(effective.recipe()),
                         " has no guidance; leave it out or set every term off"));
  }
  const std::pair<const char*, double> scales[] = {{".cfg_scale", guidance.cfg_scale()},
                                                   {".stg_scale", guidance.stg_scale()},
                                                   {".modality_scale", guidance.modality_scale()}};
  for (const auto& [name, scale] : scales) {
    if (std::abs(scale) <= kMaxGuidanceScale) continue;
    add(name, absl::StrCat(scale, " is not within ±", kMaxGuidanceScale,
                           "; nearest: ", std::clamp(scale, -kMaxGuidanceScale, kMaxGuidanceScale)));
  }
  if (guidance.rescale() < 0 || guidance.rescale() > 1) {
    add(".rescale",
        absl::StrCat(guidance.rescale(), " is not within 0..1; nearest: ", std::clamp(guidance.rescale(), 0.0, 1.0)));
  }
  if (guidance.skip_step() < 0) add(".skip_step", "must be 0 or more; nearest: 0");
  for (const int32_t block : guidance.stg_blocks()) {
    if (block < 0) return add(".stg_blocks", absl::StrCat(block, " is no block"));
  }
  if (guidance.stg_blocks_size() > 1000) add(".stg_blocks", "more than 1000 of them");
}

void CheckText(const char* field, const std::string& text, Problems& out) {
  if (text.size() <= kMaxPromptBytes) return;
  out.push_back({field, absl::StrCat(text.size(), " bytes; at most ", kMaxPromptBytes)});
}

void CheckRecipe(const v1::ModelInfo& model, Recipe recipe, Problems& out) {
  if (recipe == v1::Generation::RECIPE_UNSPECIFIED) {
    out.push_back({"generation.recipe", absl::StrCat("needed: ", model.id(),
                                                     " does not say whether it is dev or distilled "
                                                     "(its worker takes --model kind=dev or kind=distilled)")});
    return;
  }
  const bool listed = std::find(model.recipes().begin(), model.recipes().end(), recipe) != model.recipes().end();
  // The others are not built yet, which is another answer than this one.
  const bool built = recipe == v1::Generation::ONE_STAGE || recipe == v1::Generation::DISTILLED;
  if (!listed && built) {
    out.push_back({"generation.recipe",
                   absl::StrCat(v1::Generation::Recipe_Name(recipe), " is not one of ", model.id(), "'s recipes")});
  }
}

void CheckMedia(const v1::Generation& asked, Problems& out) {
  if (asked.conditions_size() > kMaxConditions) {
    out.push_back(
        {"generation.conditions", absl::StrCat(asked.conditions_size(), " of them; at most ", kMaxConditions)});
  }
  for (int i = 0; i < asked.conditions_size(); ++i) {
    const v1::Condition& condition = asked.conditions(i);
    const std::string field = absl::StrCat("generation.conditions[", i, "]");
    if (condition.media_case() == v1::Condition::MEDIA_NOT_SET) out.push_back({field, "needs an image or a clip"});
    if (condition.frame() < 0) out.push_back({field + ".frame", "must be 0 or more; nearest: 0"});
    if (condition.strength() < 0 || condition.strength() > 1) {
      out.push_back({field + ".strength", absl::StrCat(condition.strength(), " is not within 0..1")});
    }
    if (condition.append() && condition.frame() != 0) out.push_back({field + ".append", "is for frame 0 only"});
    if (condition.crf() < 0 || condition.crf() > 51) out.push_back({field + ".crf", "is not within 0..51"});
  }
}

}  // namespace

v1::Generation WithDefaults(const v1::Generation& asked, const v1::ModelInfo& model) {
  v1::Generation out = asked;
  if (out.recipe() == v1::Generation::RECIPE_UNSPECIFIED) out.set_recipe(DefaultRecipe(model));
  const v1::Generation& defaults = DefaultsOf(model, out.recipe());
  if (out.width() == 0) out.set_width(defaults.width() > 0 ? defaults.width() : model.defaults().width());
  if (out.height() == 0) out.set_height(defaults.height() > 0 ? defaults.height() : model.defaults().height());
  if (out.num_frames() == 0) {
    out.set_num_frames(defaults.num_frames() > 0 ? defaults.num_frames() : model.defaults().num_frames());
  }
  if (out.frame_rate() == 0) {
    out.set_frame_rate(defaults.frame_rate() > 0 ? defaults.frame_rate() : model.defaults().frame_rate());
  }
  if (out.sigmas_size() > 1) {
    out.set_num_inference_steps(out.sigmas_size() - 1);
  } else if (out.num_inference_steps() == 0) {
    const bool stated = defaults.recipe() == out.recipe() && defaults.num_inference_steps() > 0;
    out.set_num_inference_steps(stated                         ? defaults.num_inference_steps()
                                : HasFixedSigmas(out.recipe()) ? kDistilledSteps
                                                               : 0);
  }
  if (defaults.recipe() == out.recipe()) FillGuidance(defaults, out);
  return out;
}

void CheckGenerationFor(const v1::ModelInfo& model, const v1::Generation& asked, const v1::Generation& effective,
                        Problems& out, bool& too_large) {
  CheckText("generation.prompt", asked.prompt(), out);
  CheckText("generation.negative_prompt", asked.negative_prompt(), out);
  CheckRecipe(model, effective.recipe(), out);
  CheckShape(model, effective, out, too_large);
  if (!(effective.frame_rate() > 0 && effective.frame_rate() <= kMaxFrameRate)) {
    out.push_back({"generation.frame_rate", absl::StrCat(effective.frame_rate(), " is not within 0..", kMaxFrameRate)});
  }
  CheckSchedule(asked, effective, out);
  CheckGuidance("generation.video_guidance", asked.has_video_guidance(), asked.video_guidance(), effective, out);
  CheckGuidance("generation.audio_guidance", asked.has_audio_guidance(), asked.audio_guidance(), effective, out);
  CheckMedia(asked, out);
}

std::map<std::string, std::string> LargestShape(const v1::ModelInfo& model, const v1::Generation& effective) {
  const v1::ModelInfo::Limits* limits = LimitsOf(model, effective);
  if (limits == nullptr) return {};
  return {{"max_width", absl::StrCat(limits->max_width())},
          {"max_height", absl::StrCat(limits->max_height())},
          {"max_frames", absl::StrCat(limits->max_frames())},
          {"max_tokens", absl::StrCat(limits->max_tokens())}};
}

}  // namespace kinora
