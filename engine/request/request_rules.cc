#include "engine/request/request_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/strings.h"
#include "engine/request/defaults.h"
#include "engine/request/given_sound.h"
#include "engine/request/not_available.h"
#include "engine/request/rules.h"
#include "engine/request/upscaling.h"

namespace kinora {

void Rules::CheckRecipe() {
  const bool sound = request_.audio_only;
  if (sound && !model_->makes_audio) Add("audio_only", "this model generates no sound");
  if (!sound && !model_->makes_video) Add("audio_only", "must be set: this model generates no video");
  if (request_.recipe == Recipe::kUnspecified) {
    return Add("recipe",
               "must be set: the model's files do not say whether it is dev or distilled (the operator can add --model "
               "kind=dev or kind=distilled)");
  }
  if (recipe_ != nullptr) return CheckNeeds();
  if (FindUpscaling(request_.upsampler) == nullptr) return;  // CheckInputs reports it
  if (model_->Find(request_.recipe, "") != nullptr) return CheckUpsampler();
  std::string listed;
  for (const RecipeDescription& described : model_->recipes) listed += Cat(" ", RecipeName(described.recipe));
  Add("recipe", Cat(RecipeName(request_.recipe), " is not one of this model's recipes, which are", listed));
}

// Reports an upsampler that the recipe is not described with.
void Rules::CheckUpsampler() {
  std::vector<std::string> others;
  for (const RecipeDescription& described : model_->recipes) {
    if (described.recipe == request_.recipe && !described.upsampler.empty()) others.push_back(described.upsampler);
  }
  const std::string_view recipe = RecipeName(request_.recipe);
  Add("upsampler", others.empty() ? Cat("the recipe ", recipe, " has one stage; omit it")
                                  : Cat(recipe, " of this model has ", absl::StrJoin(others, ", ")));
}

void Rules::CheckNeeds() {
  const struct {
    bool needed, there;
    const char *name, *file;
  } parts[] = {{recipe_->needs.video_encoder, model_->parts.video_encoder, "video encoder", "PATH"},
               {recipe_->needs.upsampler, model_->parts.upsampler, "upsampler", "spatial_upsampler=FILE"},
               {recipe_->needs.distilled_lora, model_->parts.distilled_lora, "distilled LoRA", "distilled_lora=FILE"}};
  for (const auto& part : parts) {
    if (!part.needed || part.there) continue;
    Add("recipe",
        Cat(RecipeName(request_.recipe), " needs the ", part.name, ", which this model was loaded without (--model ",
            part.file, ", or --worker-model in a frontend, adds it)"));
  }
}

void Rules::CheckGrid(const Grid& grid) {
  const int64_t largest = (grid.largest - grid.offset) / grid.multiple * grid.multiple + grid.offset;
  const int64_t rounded = (grid.value - grid.offset + grid.multiple / 2) / grid.multiple * grid.multiple + grid.offset;
  const int64_t nearest = std::clamp(rounded, std::min(grid.smallest, largest), largest);
  if (grid.value > largest) {
    too_large_ = true;
    Add(grid.field, absl::StrCat(grid.value, " is too large; nearest: ", nearest));
  } else if ((grid.value - grid.offset) % grid.multiple != 0) {
    Add(grid.field,
        absl::StrCat(grid.value, grid.offset == 0 ? " is not a multiple of " : " is not 1 more than a multiple of ",
                     grid.multiple, "; nearest: ", nearest));
  } else if (grid.value < grid.smallest) {
    Add(grid.field, absl::StrCat(grid.value, " is too small; nearest: ", nearest));
  }
}

void Rules::CheckShape() {
  const RecipeDescription none{.size_multiple = model_ != nullptr ? model_->pixels_per_token : 1,
                               .frame_multiple = model_ != nullptr ? model_->frames_per_token : 1};
  const RecipeDescription& r = recipe_ != nullptr ? *recipe_ : none;
  const int64_t size = std::max(1, r.size_multiple), frames = std::max(1, r.frame_multiple);
  const auto limit = [](int32_t maximum) { return maximum > 0 ? maximum : std::numeric_limits<int32_t>::max(); };
  const int64_t smallest = (std::max<int64_t>(r.min_size, size) + size - 1) / size * size;  // on the grid
  const Grid grids[] = {
      {"width", request_.width, size, 0, smallest, limit(r.max_width)},
      {"height", request_.height, size, 0, smallest, limit(r.max_height)},
      {"num_frames", request_.num_frames, frames, 1, 1, limit(r.max_frames)},
  };
  const int64_t before = wrong_;
  for (const Grid& grid : absl::MakeConstSpan(grids).subspan(request_.audio_only ? 2 : 0)) {
    const bool later = &grid == &grids[2] && FramesAreUnknown(request_);
    if (later || (recipe_ == nullptr && grid.value == 0)) continue;  // 0: a default, unknown without a description
    CheckGrid(grid);
  }
  shaped_ = recipe_ != nullptr && wrong_ == before;
  sized_ = shaped_ && !FramesAreUnknown(request_);
  if (sized_ && !request_.audio_only) CheckTokens(request_.num_frames);
}

void Rules::CheckTokens(int64_t num_frames) {
  const int64_t appended = AppendedTokens(num_frames);
  const int64_t tokens = model_->VideoTokens(num_frames, request_.height, request_.width) + appended;
  if (recipe_->max_tokens == 0 || tokens <= recipe_->max_tokens) return;
  too_large_ = true;
  // The latent frames of this size that fit determine the largest number of frames on the recipe's grid.
  const int64_t per_frame = std::max<int64_t>(1, model_->VideoTokens(1, request_.height, request_.width));
  const int64_t fits =
      std::min<int64_t>((recipe_->max_tokens - appended) / per_frame, std::numeric_limits<int32_t>::max());
  const int64_t multiple = std::max(1, recipe_->frame_multiple);
  const int64_t frames = (fits - 1) * model_->frames_per_token / multiple * multiple + 1;
  const char* const smaller = appended > 0 ? "reduce width, height or conditions" : "reduce width or height";
  const std::string_view whose = appended > 0 ? ", including those of conditions" : "";
  const std::string problem = Cat(tokens, " video tokens", whose, "; at most ", recipe_->max_tokens, "; ");
  const double seconds = static_cast<double>(frames) / request_.frame_rate;
  if (!request_.auto_length.has_value()) {
    Add("num_frames", problem + (fits < 1 ? smaller : absl::StrCat("nearest at this size: ", frames, " frames")));
  } else if (fits < 1 || seconds < *request_.auto_length->min_seconds) {
    Add("width", problem + smaller);
  } else {
    Add("auto_length.max_seconds", absl::StrCat(problem, "nearest at this size: ", seconds));
  }
}

// Tokens of conditions, appended to the clip's own. An unread clip counts as the longest possible.
int64_t Rules::AppendedTokens(int64_t num_frames) const {
  int64_t tokens = 0;
  for (const ConditionInput& condition : request_.conditions) {
    const int64_t left = num_frames - condition.frame;
    if (left < 1 || condition.frame < 0 || !(condition.append || condition.frame > 0)) continue;
    const int64_t read = condition.pixels != nullptr ? condition.pixels->frames : left;
    const int64_t frames = condition.media == ConditionInput::Media::kImage ? 1 : std::min(read, left);
    tokens += model_->VideoTokens(frames, request_.height, request_.width);
  }
  return tokens;
}

void Rules::CheckSigmas() {
  const std::vector<double>& sigmas = request_.sigmas;
  const int64_t count = std::ssize(sigmas);
  if (count == 0) return;
  const size_t before = violations_.size();
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(sigmas[i])) Add(absl::StrCat("sigmas[", i, "]"), "must be a finite number");
  }
  if (violations_.size() > before) return;
  if (count < 2 || count > kMaxSigmas) {
    return Add("sigmas", absl::StrCat(count, " values; must be 2 to ", kMaxSigmas, ", ending in 0"));
  }
  const double least = request_.recipe == Recipe::kHq ? kMinHqSigma : kMinSigma;
  for (int64_t i = 0; i + 1 < count; ++i) {
    const std::string field = absl::StrCat("sigmas[", i, "]");
    if (sigmas[i] < least || sigmas[i] > 1) return CheckNumber(field, sigmas[i], least, 1);
    // Compare in float32, the precision in which the steps divide by the levels.
    if (i > 0 && static_cast<float>(sigmas[i]) >= static_cast<float>(sigmas[i - 1])) {
      return Add(field, "must be less than the previous one");
    }
  }
  if (sigmas.back() != 0) Add(absl::StrCat("sigmas[", count - 1, "]"), "must be 0, as the last one; nearest: 0");
}

void Rules::CheckSteps() {
  const int32_t steps = request_.num_inference_steps;
  const int64_t count = static_cast<int64_t>(request_.sigmas.size());
  const int64_t fixed = recipe_ != nullptr ? static_cast<int64_t>(recipe_->fixed_sigmas.size()) : 0;
  if (steps == 0 && recipe_ == nullptr) return;
  if (count == 1 || count > kMaxSigmas) return;  // CheckSigmas reports it
  if (steps < 1 || steps > kMaxSteps) return CheckNumber("num_inference_steps", steps, 1, kMaxSteps);
  if (count > 0 && steps != count - 1) {
    Add("num_inference_steps", absl::StrCat(steps, " with ", count, " sigmas; nearest: ", count - 1, ", or omit it"));
  } else if (count == 0 && fixed > 0 && steps != fixed - 1) {
    Add("num_inference_steps",
        absl::StrCat(steps, " with the recipe's fixed sigmas; nearest: ", fixed - 1, ", or omit it"));
  }
}

// Rejects a token count that shifts every noise level to 1, so that no two levels differ.
void Rules::CheckScheduleTokens() {
  const GenerationRequest& r = request_;
  if (r.schedule_tokens < -1) return CheckNumber("schedule_tokens", r.schedule_tokens, -1, kAnyNumber);
  if (recipe_ == nullptr || !r.sigmas.empty() || !recipe_->fixed_sigmas.empty()) return;
  if (!sized_ || r.num_inference_steps < 1 || r.num_inference_steps > kMaxSteps) return;
  const auto works = [&](int64_t tokens) {
    const std::vector<float> levels = DevSigmas(model_->schedule, r.num_inference_steps, tokens);
    return std::all_of(levels.begin(), levels.end(), [](float level) { return std::isfinite(level); });
  };
  const int64_t tokens = model_->ScheduleTokens(r);
  if (works(tokens)) return;
  int64_t fewer = 0, more = tokens;  // 0: no count works
  while (more - fewer > 1) {
    const int64_t middle = fewer + (more - fewer) / 2;
    (works(middle) ? fewer : more) = middle;
  }
  Add("schedule_tokens",
      absl::StrCat("with ", tokens, " tokens and ", r.num_inference_steps, " steps, every noise level is 1; ",
                   fewer > 0 ? absl::StrCat("nearest: ", fewer) : "set explicit sigmas"));
}

void Rules::CheckGuidance(const std::string& field, const std::optional<GuidanceParams>& guidance) {
  if (!guidance.has_value()) return;
  const GuidanceParams& g = *guidance;
  if (recipe_ != nullptr && !recipe_->guided && Guides(g)) {
    Add(field, Cat("the recipe ", RecipeName(request_.recipe), " has no guidance; omit it or turn every term off"));
  }
  CheckNumber(field + ".cfg_scale", g.cfg_scale, -kMaxGuidanceScale, kMaxGuidanceScale);
  CheckNumber(field + ".stg_scale", g.stg_scale, -kMaxGuidanceScale, kMaxGuidanceScale);
  CheckNumber(field + ".modality_scale", g.modality_scale, -kMaxGuidanceScale, kMaxGuidanceScale);
  CheckNumber(field + ".rescale", g.rescale, 0, 1);
  CheckNumber(field + ".skip_step", g.skip_step, 0, kMaxSkipStep);
  CheckStgBlocks(field + ".stg_blocks", g.stg_blocks);
}

void Rules::CheckStgBlocks(const std::string& field, const std::vector<int32_t>& blocks) {
  const int64_t count = static_cast<int64_t>(blocks.size());
  if (count > kMaxStgBlocks) return Add(field, absl::StrCat(count, " of them; at most ", kMaxStgBlocks));
  const int32_t last = model_ != nullptr ? std::max(0, model_->blocks - 1) : std::numeric_limits<int32_t>::max();
  for (int64_t i = 0; i < count; ++i) {
    if (blocks[i] >= 0 && blocks[i] <= last) continue;
    const std::string which = model_ != nullptr ? absl::StrCat("; this model has 0..", last) : "";
    return Add(absl::StrCat(field, "[", i, "]"),
               absl::StrCat(blocks[i], " is not a block", which, "; nearest: ", std::clamp(blocks[i], 0, last)));
  }
}

Verdict ValidateRequest(const ModelDescription& model, const GenerationRequest& asked) {
  Verdict verdict{.effective = WithDefaults(model, asked)};
  Rules rules(&model, verdict.effective);
  rules.CheckAll();
  verdict.violations = std::move(rules.violations());
  verdict.too_large = rules.too_large();
  verdict.unavailable = NotAvailable(verdict.effective);
  return verdict;
}

absl::StatusOr<GenerationRequest> ResolveRequest(const ModelDescription& model, const GenerationRequest& asked) {
  Verdict verdict = ValidateRequest(model, asked);
  if (!verdict.violations.empty()) return absl::InvalidArgumentError(JoinViolations(verdict.violations));
  if (!verdict.unavailable.empty()) return absl::UnimplementedError(verdict.unavailable + ": not available yet");
  return std::move(verdict.effective);
}

FieldViolations ViolationsForAnyModel(const GenerationRequest& asked) {
  Rules rules(nullptr, asked);
  rules.CheckAll();
  return std::move(rules.violations());
}

FieldViolations OutputViolations(const OutputRequest& output) {
  const GenerationRequest none;
  Rules rules(nullptr, none);
  rules.CheckNumber("crf", output.crf.value_or(0), 0, kMaxCrf);
  rules.CheckNumber("preview_every_steps", output.preview_every_steps, 0, kAnyNumber);
  return std::move(rules.violations());
}

}  // namespace kinora
