#include "engine/request/request_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/strings.h"
#include "engine/request/defaults.h"
#include "engine/request/given_sound.h"
#include "engine/request/not_available.h"
#include "engine/request/upscaling.h"

namespace kinora {
namespace {

constexpr int32_t kLowestSampleRate = 1000, kHighestSampleRate = 192000;  // Hz, of SoundTrack
constexpr double kAny = std::numeric_limits<double>::max();

bool Guides(const GuidanceParams& g) { return g.NeedsUncond() || g.NeedsPerturbed() || g.NeedsModality(); }

// A value that must be k·multiple + offset, from `smallest` to `largest`.
struct Grid {
  const char* field;
  int64_t value, multiple, offset, smallest, largest;
};

class Rules {
 public:
  // model: null for what holds with any of them. request: with the model's defaults.
  Rules(const ModelDescription* model, const GenerationRequest& request)
      : model_(model),
        recipe_(model != nullptr ? model->Find(request.recipe, request.upsampler) : nullptr),
        request_(request) {}

  void CheckAll() {
    CheckPrompt("prompt", request_.prompt);
    CheckPrompt("negative_prompt", request_.negative_prompt.value_or(""));
    if (model_ != nullptr) CheckRecipe();
    CheckShape();
    if (recipe_ != nullptr || request_.frame_rate != 0) {
      CheckNumber("frame_rate", request_.frame_rate, kMinFrameRate, kMaxFrameRate);
    }
    CheckSigmas();
    CheckSteps();
    CheckScheduleTokens();
    CheckGuidance("video_guidance", request_.video_guidance);
    CheckGuidance("audio_guidance", request_.audio_guidance);
    CheckInputs();
    if (request_.audio.has_value()) CheckSound();
    if (request_.audio_only) CheckSoundAlone();
  }

  void CheckNumber(const std::string& field, double value, double minimum, double maximum) {
    if (!std::isfinite(value)) return Add(field, "must be a finite number");
    if (value >= minimum && value <= maximum) return;
    const std::string limit = maximum == kAny ? absl::StrCat("must be ", minimum, " or more")
                                              : absl::StrCat(value, " is not within ", minimum, "..", maximum);
    Add(field, absl::StrCat(limit, "; nearest: ", std::clamp(value, minimum, maximum)));
  }

  FieldViolations& violations() { return violations_; }
  bool too_large() const { return too_large_; }

 private:
  void Add(const std::string& field, std::string description) {
    if (violations_.size() < kMaxViolations) violations_.push_back({field, std::move(description)});
  }

  bool CheckText(const std::string& field, const std::string& text) {
    std::string problem = TextProblem(text);
    if (problem.empty()) return true;
    Add(field, std::move(problem));
    return false;
  }

  void CheckPrompt(const char* field, const std::string& prompt) {
    if (prompt.size() > kMaxPromptBytes) {
      return Add(field, absl::StrCat(prompt.size(), " bytes; at most ", kMaxPromptBytes));
    }
    CheckText(field, prompt);
  }

  void CheckRecipe();
  void CheckUpsampler();
  void CheckNeeds();
  void CheckGrid(const Grid& grid);
  void CheckShape();
  void CheckTokens();
  int64_t AppendedTokens() const;
  void CheckSigmas();
  void CheckSteps();
  void CheckScheduleTokens();
  void CheckGuidance(const std::string& field, const std::optional<GuidanceParams>& guidance);
  void CheckSound();
  void CheckSoundLength();
  void CheckSoundAlone();
  void CheckStgBlocks(const std::string& field, const std::vector<int32_t>& blocks);
  void CheckInputs();
  void CheckRetake(const RetakeInput& retake);
  void CheckExtension(const RetakeInput& retake);
  void CheckCondition(const std::string& field, const ConditionInput& condition);
  void CheckLoraId(const std::string& field, const std::string& id);
  void CheckLora(const std::string& field, const LoraInput& lora);

  const ModelDescription* const model_;
  const RecipeDescription* const recipe_;  // null: not described; what depends on it is not checked
  const GenerationRequest& request_;
  FieldViolations violations_;
  bool sized_ = false;  // width, height and num_frames are known and on the grid
  bool too_large_ = false;
};

void Rules::CheckRecipe() {
  const bool sound = request_.audio_only;
  if (sound && !model_->makes_audio) Add("audio_only", "this model makes no sound");
  if (!sound && !model_->makes_video) Add("audio_only", "needed: this model makes no video");
  if (request_.recipe == Recipe::kUnspecified) {
    return Add("recipe",
               "needed: the model's files do not say whether it is dev or distilled (--model kind=dev or "
               "kind=distilled beside them does)");
  }
  if (recipe_ != nullptr) return CheckNeeds();
  if (FindUpscaling(request_.upsampler) == nullptr) return;  // said of the upsampler
  if (model_->Find(request_.recipe, "") != nullptr) return CheckUpsampler();
  std::string listed;
  for (const RecipeDescription& described : model_->recipes) listed += Cat(" ", RecipeName(described.recipe));
  Add("recipe", Cat(RecipeName(request_.recipe), " is not one of this model's recipes, which are", listed));
}

// One that the recipe is not described with.
void Rules::CheckUpsampler() {
  std::vector<std::string> others;
  for (const RecipeDescription& described : model_->recipes) {
    if (described.recipe == request_.recipe && !described.upsampler.empty()) others.push_back(described.upsampler);
  }
  const std::string_view recipe = RecipeName(request_.recipe);
  Add("upsampler", others.empty() ? Cat("the recipe ", recipe, " has one stage; leave it out")
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
            part.file, ", of a frontend --worker-model, gives it)"));
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
  const int64_t smallest = (std::max<int64_t>(r.min_size, size) + size - 1) / size * size;  // that is on the grid
  const Grid grids[] = {
      {"width", request_.width, size, 0, smallest, limit(r.max_width)},
      {"height", request_.height, size, 0, smallest, limit(r.max_height)},
      {"num_frames", request_.num_frames, frames, 1, 1, limit(r.max_frames)},
  };
  const size_t before = violations_.size();
  for (const Grid& grid : absl::MakeConstSpan(grids).subspan(request_.audio_only ? 2 : 0)) {
    const bool later = &grid == &grids[2] && FramesAreUnknown(request_);
    if (later || (recipe_ == nullptr && grid.value == 0))
      continue;  // 0 without a description: a default not known here
    CheckGrid(grid);
  }
  sized_ = recipe_ != nullptr && violations_.size() == before && !FramesAreUnknown(request_);
  if (sized_ && !request_.audio_only) CheckTokens();
}

void Rules::CheckTokens() {
  const int64_t appended = AppendedTokens();
  const int64_t tokens = model_->VideoTokens(request_.num_frames, request_.height, request_.width) + appended;
  if (recipe_->max_tokens == 0 || tokens <= recipe_->max_tokens) return;
  too_large_ = true;
  // Latent frames of this size that fit, then the largest number of frames on the recipe's grid.
  const int64_t per_frame = std::max<int64_t>(1, model_->VideoTokens(1, request_.height, request_.width));
  const int64_t fits =
      std::min<int64_t>((recipe_->max_tokens - appended) / per_frame, std::numeric_limits<int32_t>::max());
  const int64_t multiple = std::max(1, recipe_->frame_multiple);
  const int64_t frames = (fits - 1) * model_->frames_per_token / multiple * multiple + 1;
  const char* const smaller = appended > 0 ? "reduce width, height or conditions" : "reduce width or height";
  const std::string nearest = fits < 1 ? smaller : absl::StrCat("nearest at this size: ", frames, " frames");
  const std::string_view whose = appended > 0 ? ", those of conditions among them" : "";
  Add("num_frames", Cat(tokens, " video tokens", whose, "; at most ", recipe_->max_tokens, "; ", nearest));
}

// Of conditions behind the clip's own. One that nobody has read counts as the longest that it may be.
int64_t Rules::AppendedTokens() const {
  int64_t tokens = 0;
  for (const ConditionInput& condition : request_.conditions) {
    const int64_t left = request_.num_frames - condition.frame;
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
    return Add("sigmas", absl::StrCat(count, " values; 2..", kMaxSigmas, ", the last one 0"));
  }
  const double least = request_.recipe == Recipe::kHq ? kMinHqSigma : kMinSigma;
  for (int64_t i = 0; i + 1 < count; ++i) {
    const std::string field = absl::StrCat("sigmas[", i, "]");
    if (sigmas[i] < least || sigmas[i] > 1) return CheckNumber(field, sigmas[i], least, 1);
    // In float32, in which the steps divide by them.
    if (i > 0 && static_cast<float>(sigmas[i]) >= static_cast<float>(sigmas[i - 1])) {
      return Add(field, "must be less than the one before");
    }
  }
  if (sigmas.back() != 0) Add(absl::StrCat("sigmas[", count - 1, "]"), "the last one must be 0; nearest: 0");
}

void Rules::CheckSteps() {
  const int32_t steps = request_.num_inference_steps;
  const int64_t count = static_cast<int64_t>(request_.sigmas.size());
  const int64_t fixed = recipe_ != nullptr ? static_cast<int64_t>(recipe_->fixed_sigmas.size()) : 0;
  if (steps == 0 && recipe_ == nullptr) return;
  if (count == 1 || count > kMaxSigmas) return;  // said of the sigmas
  if (steps < 1 || steps > kMaxSteps) return CheckNumber("num_inference_steps", steps, 1, kMaxSteps);
  if (count > 0 && steps != count - 1) {
    Add("num_inference_steps",
        absl::StrCat(steps, " with ", count, " sigmas; nearest: ", count - 1, ", or leave it out"));
  } else if (count == 0 && fixed > 0 && steps != fixed - 1) {
    Add("num_inference_steps",
        absl::StrCat(steps, " with the fixed sigmas of the recipe; nearest: ", fixed - 1, ", or leave it out"));
  }
}

// So many tokens shift every noise level to 1, and none of them differs from the next.
void Rules::CheckScheduleTokens() {
  const GenerationRequest& r = request_;
  if (r.schedule_tokens < -1) return CheckNumber("schedule_tokens", r.schedule_tokens, -1, kAny);
  if (recipe_ == nullptr || !r.sigmas.empty() || !recipe_->fixed_sigmas.empty()) return;
  if (!sized_ || r.num_inference_steps < 1 || r.num_inference_steps > kMaxSteps) return;
  const auto works = [&](int64_t tokens) {
    const std::vector<float> levels = DevSigmas(model_->schedule, r.num_inference_steps, tokens);
    return std::all_of(levels.begin(), levels.end(), [](float level) { return std::isfinite(level); });
  };
  const int64_t tokens = model_->ScheduleTokens(r);
  if (works(tokens)) return;
  int64_t fewer = 0, more = tokens;  // 0 stands for: none works
  while (more - fewer > 1) {
    const int64_t middle = fewer + (more - fewer) / 2;
    (works(middle) ? fewer : more) = middle;
  }
  Add("schedule_tokens",
      absl::StrCat("with ", tokens, " tokens and ", r.num_inference_steps, " steps every noise level is 1; ",
                   fewer > 0 ? absl::StrCat("nearest: ", fewer) : "give explicit sigmas"));
}

void Rules::CheckGuidance(const std::string& field, const std::optional<GuidanceParams>& guidance) {
  if (!guidance.has_value()) return;
  const GuidanceParams& g = *guidance;
  if (recipe_ != nullptr && !recipe_->guided && Guides(g)) {
    Add(field, Cat("the recipe ", RecipeName(request_.recipe), " has no guidance; leave it out or set every term off"));
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
               absl::StrCat(blocks[i], " is no block", which, "; nearest: ", std::clamp(blocks[i], 0, last)));
  }
}

void Rules::CheckInputs() {
  const GenerationRequest& r = request_;
  const auto check_list = [this](const std::string& field, const auto& list, int64_t most, auto check) {
    const int64_t count = static_cast<int64_t>(list.size());
    if (count > most) return Add(field, absl::StrCat(count, " of them; at most ", most));
    for (int64_t i = 0; i < count; ++i) (this->*check)(absl::StrCat(field, "[", i, "]"), list[i]);
  };
  if (!r.conditions.empty() && model_ != nullptr && !model_->parts.video_encoder) {
    Add("conditions", "this model was loaded without a video encoder; leave them out");
  }
  check_list("conditions", r.conditions, kMaxConditions, &Rules::CheckCondition);
  check_list("loras", r.loras, kMaxLoras, &Rules::CheckLora);
  std::set<std::string> named;
  for (size_t i = 0; i < std::min<size_t>(r.loras.size(), kMaxLoras); ++i) {
    if (named.insert(r.loras[i].id).second || r.loras[i].id.empty()) continue;
    Add(absl::StrCat("loras[", i, "].id"), Cat(r.loras[i].id, " is named twice; give it once, with one strength"));
  }
  if (r.retake.has_value()) CheckRetake(*r.retake);
  if (r.audio.has_value()) {
    CheckText("audio.media.input_id", r.audio->input_id);
    CheckNumber("audio.start_seconds", r.audio->start_seconds, 0, kAny);
  }
  if (FindUpscaling(r.upsampler) == nullptr) Add("upsampler", Cat("not one of ", kUpscalings));
}

void Rules::CheckRetake(const RetakeInput& retake) {
  const double start = retake.start_seconds, end = retake.end_seconds;
  CheckText("retake.clip.input_id", retake.input_id);
  CheckNumber("retake.start_seconds", start, 0, sized_ ? request_.num_frames / request_.frame_rate : kAny);
  CheckNumber("retake.end_seconds", end, std::isfinite(start) ? std::max(0.0, start) : 0, kAny);
  if (start == end) Add("retake.end_seconds", "nothing lies between start_seconds and it; make it larger");
  if (retake.keep_video && retake.keep_audio) Add("retake.keep_audio", "with keep_video nothing is made anew");
  if (!request_.conditions.empty()) Add("conditions", "not with a retake, which keeps its clip; leave them out");
  if (model_ != nullptr && !model_->parts.video_encoder) {
    Add("retake", "this model was loaded without a video encoder, which sees its clip");
  }
  if (model_ != nullptr && !model_->parts.audio_encoder && retake.audio != nullptr) {
    Add("retake", "this model was loaded without an audio encoder, which hears its clip");
  }
  if (recipe_ != nullptr && !recipe_->upsampler.empty()) {
    Add("recipe", Cat(RecipeName(request_.recipe), " has two stages, and a retake is made in one; nearest: ",
                      RecipeName(recipe_->guided ? Recipe::kOneStage : Recipe::kDistilled)));
  }
  const auto guided = [](const auto& guidance) { return guidance.has_value() && Guides(*guidance); };
  constexpr char kKept[] = "is of what the retake keeps, which is not guided; leave it out or set every term off";
  if (retake.keep_video && guided(request_.video_guidance)) Add("video_guidance", kKept);
  if (retake.keep_audio && guided(request_.audio_guidance)) Add("audio_guidance", kKept);
  if (sized_ && retake.clip != nullptr) CheckExtension(retake);
}

// All that a clip is too short for is made anew.
void Rules::CheckExtension(const RetakeInput& retake) {
  const int64_t multiple = std::max(1, recipe_->frame_multiple);
  const int64_t kept = retake.clip->frames < 1 ? 0 : (retake.clip->frames - 1) / multiple * multiple + 1;
  const double rate = request_.frame_rate, ends = static_cast<double>(kept) / rate;
  if (kept == 0) return Add("retake.clip", "has no picture");
  if (kept >= request_.num_frames) return;
  const double whole = request_.num_frames / rate, half_a_frame = 0.5 / rate;
  const bool late = retake.start_seconds > ends + half_a_frame;
  if (retake.keep_video || retake.keep_audio) {
    Add("num_frames", absl::StrCat(request_.num_frames, " frames, and the clip that is kept has ", retake.clip->frames,
                                   "; nearest: ", kept));
  } else if (late || retake.end_seconds < whole - half_a_frame) {
    Add(late ? "retake.start_seconds" : "retake.end_seconds",
        absl::StrCat("the clip ends at ", ends, " s, and all from there to ", whole,
                     " s is new; nearest: ", late ? ends : whole, ", or ", kept, " frames"));
  }
}

// Of audio-to-video.
void Rules::CheckSound() {
  const GenerationRequest& r = request_;
  if (r.audio->input_id.empty() && r.audio->audio == nullptr) Add("audio", "needs a sound; name it in media");
  if (r.retake.has_value()) Add("audio", "not with a retake, whose clip has its own sound; leave one of them out");
  if (model_ != nullptr && !model_->parts.audio_encoder) {
    Add("audio", "this model was loaded without an audio encoder, which hears it");
  }
  if (r.audio_guidance.has_value() && Guides(*r.audio_guidance)) {
    Add("audio_guidance", "the sound is given and not guided; leave it out or set every term off");
  }
  if (r.noise.audio.has_value()) Add("audio_noise", "the sound is given, and begins from no noise; leave it out");
  if (r.audio->audio != nullptr && r.num_frames > 0) CheckSoundLength();
}

// That it lasts as long as the clip, and that a file can hold it.
void Rules::CheckSoundLength() {
  const AudioGuide& guide = *request_.audio;
  if (const int32_t rate = guide.audio->sample_rate; rate < kLowestSampleRate || rate > kHighestSampleRate) {
    Add("audio",
        Cat(rate, " samples a second; the clip's file can hold ", kLowestSampleRate, " to ", kHighestSampleRate));
  }
  const SoundSpan span = HeardSpan(guide, request_.num_frames, request_.frame_rate);
  if (span.begin + span.samples <= guide.audio->samples) return;
  const double seconds = static_cast<double>(guide.audio->samples) / guide.audio->sample_rate;
  const int64_t frames = FramesHeard(guide, request_.frame_rate, recipe_ != nullptr ? recipe_->frame_multiple : 1);
  if (frames < 1) {
    return Add("audio.start_seconds", absl::StrCat("the sound lasts ", seconds, " s, and no frame is left after ",
                                                   guide.start_seconds, "; nearest: 0"));
  }
  Add("num_frames", absl::StrCat(request_.num_frames, " frames last longer than the given sound: ", seconds,
                                 " s, heard from ", guide.start_seconds, " on; nearest: ", frames));
}

void Rules::CheckSoundAlone() {
  const GenerationRequest& r = request_;
  if (r.audio.has_value()) Add("audio", "not with audio_only, which makes a sound of its own; leave one of them out");
  if (r.width != 0) Add("width", "audio_only: there is no picture; leave it out");
  if (r.height != 0) Add("height", "audio_only: there is no picture; leave it out");
  if (!r.conditions.empty()) Add("conditions", "audio_only: there is no picture; leave them out");
  if (r.retake.has_value()) Add("retake", "not with audio_only; leave one of them out");
  if (r.noise.video.has_value()) Add("video_noise", "audio_only: there is no picture; leave it out");
  if (r.schedule_tokens == -1) Add("schedule_tokens", "-1 counts tokens of the picture, and there is none; nearest: 0");
  if (r.video_guidance.has_value() && Guides(*r.video_guidance)) {
    Add("video_guidance", "audio_only: there is no picture; leave it out or set every term off");
  }
  if (r.audio_guidance.has_value() && r.audio_guidance->NeedsModality()) {
    Add("audio_guidance.modality_scale", "audio_only: there is no picture to hear; nearest: 1");
  }
  if (recipe_ == nullptr || recipe_->upsampler.empty()) return;
  Add("recipe", Cat(RecipeName(r.recipe), " has two stages, and audio_only is made in one; nearest: ",
                    RecipeName(recipe_->guided ? Recipe::kOneStage : Recipe::kDistilled)));
}

void Rules::CheckCondition(const std::string& field, const ConditionInput& condition) {
  if (condition.media == ConditionInput::Media::kNone) Add(field, "needs an image or a clip");
  const bool image = condition.media == ConditionInput::Media::kImage;
  CheckText(field + (image ? ".image.input_id" : ".clip.input_id"), condition.input_id);
  CheckNumber(field + ".frame", condition.frame, 0, sized_ ? request_.num_frames - 1 : kAny);
  CheckNumber(field + ".strength", condition.strength, 0, 1);
  if (condition.append && condition.frame != 0) Add(field + ".append", "is for frame 0 only");
  CheckNumber(field + ".crf", condition.crf.value_or(0), 0, kMaxCrf);
}

void Rules::CheckLoraId(const std::string& field, const std::string& id) {
  const std::vector<std::string>& loras = model_->loras;
  if (std::find(loras.begin(), loras.end(), id) != loras.end()) return;
  Add(field, loras.empty() ? Cat(id, ": this model was loaded without LoRAs (--model lora=ID:FILE)")
                           : Cat(id, " is not one of this model's LoRAs, which are ", absl::StrJoin(loras, ", ")));
}

void Rules::CheckLora(const std::string& field, const LoraInput& lora) {
  if (lora.id.empty()) Add(field + ".id", "is empty");
  if (CheckText(field + ".id", lora.id) && model_ != nullptr && !lora.id.empty()) CheckLoraId(field + ".id", lora.id);
  CheckNumber(field + ".strength", lora.strength, -kMaxLoraStrength, kMaxLoraStrength);
  if (!lora.strength_stage2.has_value()) return;
  CheckNumber(field + ".strength_stage2", *lora.strength_stage2, -kMaxLoraStrength, kMaxLoraStrength);
  if (recipe_ == nullptr || !recipe_->upsampler.empty()) return;
  Add(field + ".strength_stage2", Cat("the recipe ", RecipeName(request_.recipe), " has one stage; leave it out"));
}

}  // namespace

Verdict Judge(const ModelDescription& model, const GenerationRequest& asked) {
  Verdict verdict{.effective = WithDefaults(model, asked)};
  Rules rules(&model, verdict.effective);
  rules.CheckAll();
  verdict.violations = std::move(rules.violations());
  verdict.too_large = rules.too_large();
  verdict.unavailable = NotAvailable(verdict.effective);
  return verdict;
}

absl::StatusOr<GenerationRequest> ResolveRequest(const ModelDescription& model, const GenerationRequest& asked) {
  Verdict verdict = Judge(model, asked);
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
  rules.CheckNumber("preview_every_steps", output.preview_every_steps, 0, kAny);
  return std::move(rules.violations());
}

}  // namespace kinora
