#include "engine/request/defaults.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/request/given_sound.h"
#include "engine/request/request_rules.h"

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

// The recipe's default, or, if a retake's window ends later, the frames up to its end, at most recipe.max_frames (if
// that is 0, the default).
int32_t FramesOfWindow(const RecipeDescription& recipe, const GenerationRequest& r) {
  const int32_t usual = recipe.defaults.num_frames;
  if (!r.retake.has_value() || r.retake->keep_video || r.retake->keep_audio) return usual;
  const double reached = r.retake->end_seconds * r.frame_rate + 0.5;  // times are printed with few digits
  if (!(reached > usual)) return usual;
  const double most = recipe.max_frames > 0 ? recipe.max_frames : std::numeric_limits<int32_t>::max();
  const int32_t multiple = std::max(1, recipe.frame_multiple);
  return std::max(usual, (static_cast<int32_t>(std::min(reached, most)) - 1) / multiple * multiple + 1);
}

// 0: unknown until the model has chosen it, or until the given sound that determines it is read.
int32_t FramesOf(const RecipeDescription& recipe, const GenerationRequest& r) {
  if (r.auto_length.has_value()) return 0;
  if (!r.audio.has_value()) return FramesOfWindow(recipe, r);
  if (r.audio->audio == nullptr) return 0;
  const int64_t heard = FramesHeard(*r.audio, r.frame_rate, recipe.frame_multiple);
  const int64_t most = recipe.max_frames > 0 ? recipe.max_frames : heard;
  return static_cast<int32_t>(std::clamp<int64_t>(heard, 1, std::max<int64_t>(1, most)));
}

// The longest clip of the request's size that the recipe's limits allow, in frames on its grid; 0: no limit. Tokens of
// conditions that are appended count, an unread clip as the longest possible.
double MostFrames(const ModelDescription& model, const RecipeDescription& recipe, const GenerationRequest& r) {
  const double multiple = std::max(1, recipe.frame_multiple);
  double most = recipe.max_frames;
  const int64_t per_frame = r.audio_only ? 0 : model.VideoTokens(1, r.height, r.width);
  if (recipe.max_tokens > 0 && per_frame > 0) {
    int64_t images = 0, copies = 1;
    for (const ConditionInput& condition : r.conditions) {
      if (!condition.append && condition.frame <= 0) continue;
      ++(condition.media == ConditionInput::Media::kImage ? images : copies);
    }
    const int64_t latent_frames = std::max<int64_t>(1, (recipe.max_tokens / per_frame - images) / copies);
    const double frames = static_cast<double>(latent_frames - 1) * model.frames_per_token + 1;
    most = most > 0 ? std::min(most, frames) : frames;
  }
  return most > 0 ? std::floor((most - 1) / multiple) * multiple + 1 : 0;
}

// An absent bound is the reference's, or the nearest for which a valid length lies between both.
void FillAutoLength(double most_frames, double frame_rate, double multiple, AutoLength& length) {
  const bool rated = frame_rate >= kMinFrameRate && frame_rate <= kMaxFrameRate;
  const auto sane = [](double seconds) { return seconds >= 0 && seconds <= kMostAutoSeconds; };
  if (!length.max_seconds.has_value()) {
    length.max_seconds = kLongestAutoSeconds;
    if (rated && most_frames > 0) length.max_seconds = std::min(kLongestAutoSeconds, most_frames / frame_rate);
    const double shortest = length.min_seconds.value_or(0);
    if (rated && sane(shortest)) {
      const double frames = std::nearbyint(shortest * frame_rate);
      const double least = std::ceil(std::max(0.0, frames - 1) / multiple) * multiple + 1;
      length.max_seconds = std::max(*length.max_seconds, least / frame_rate);
    }
  }
  if (length.min_seconds.has_value()) return;
  length.min_seconds = kShortestAutoSeconds;
  if (!rated || !sane(*length.max_seconds)) return;
  const double frames = std::nearbyint(*length.max_seconds * frame_rate);
  const double longest = std::floor(std::max(0.0, frames - 1) / multiple) * multiple + 1;
  length.min_seconds = std::min({kShortestAutoSeconds, *length.max_seconds, longest / frame_rate});
}

// Reduces the defaults of a modality that a retake keeps to its perturbation in the other modality's STG pass.
void KeepPerturbation(std::optional<GuidanceParams>& defaults) {
  if (!defaults.has_value()) return;
  defaults = GuidanceParams{.stg_scale = defaults->stg_scale, .stg_blocks = std::move(defaults->stg_blocks)};
}

// A modality that is given or absent is not guided.
void FillGuidances(const GenerationRequest& defaults, GenerationRequest& r) {
  std::optional<GuidanceParams> video = defaults.video_guidance, audio = defaults.audio_guidance;
  if (r.audio.has_value()) audio.reset();
  if (r.retake.has_value() && r.retake->keep_video) KeepPerturbation(video);
  if (r.retake.has_value() && r.retake->keep_audio) KeepPerturbation(audio);
  if (r.audio_only) {
    video.reset();
    if (audio.has_value()) audio->modality_scale = 1;
  }
  FillGuidance(video, r.video_guidance);
  FillGuidance(audio, r.audio_guidance);
}

}  // namespace

GenerationRequest WithDefaults(const ModelDescription& model, const GenerationRequest& asked) {
  GenerationRequest r = asked;
  if (r.recipe == Recipe::kUnspecified) r.recipe = model.default_recipe;
  const RecipeDescription* recipe = model.Find(r.recipe, r.upsampler);
  if (recipe == nullptr) return r;
  const GenerationRequest& defaults = recipe->defaults;
  r.upsampler = recipe->upsampler;
  if (r.width == 0 && !r.audio_only) r.width = defaults.width;
  if (r.height == 0 && !r.audio_only) r.height = defaults.height;
  if (r.frame_rate == 0) r.frame_rate = defaults.frame_rate;
  if (r.auto_length.has_value()) {
    FillAutoLength(MostFrames(model, *recipe, r), r.frame_rate, std::max(1, recipe->frame_multiple), *r.auto_length);
  }
  if (r.num_frames == 0) r.num_frames = FramesOf(*recipe, r);
  FillSteps(*recipe, r);
  for (ConditionInput& condition : r.conditions) {
    if (condition.media == ConditionInput::Media::kImage && !condition.crf.has_value()) {
      condition.crf = model.image_crf;
    }
  }
  if (!recipe->guided) return r;
  FillGuidances(defaults, r);
  const bool negative = r.video_guidance->NeedsUncond() || r.audio_guidance->NeedsUncond();
  if (negative && !r.negative_prompt.has_value()) r.negative_prompt = defaults.negative_prompt;
  return r;
}

LengthLimits LimitsOfLength(const RecipeDescription& recipe, const GenerationRequest& request) {
  return {.frame_rate = request.frame_rate,
          .min_seconds = *request.auto_length->min_seconds,
          .max_seconds = *request.auto_length->max_seconds,
          .time_factor = std::max(1, recipe.frame_multiple)};
}

int32_t AssumedFrames(const RecipeDescription& recipe, const GenerationRequest& request) {
  if (!request.auto_length.has_value()) return recipe.defaults.num_frames;
  const LengthLimits limits = LimitsOfLength(recipe, request);
  return static_cast<int32_t>(FramesFromSeconds(limits.max_seconds, limits));
}

}  // namespace kinora
