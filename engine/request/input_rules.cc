#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/strings.h"
#include "engine/request/given_sound.h"
#include "engine/request/rules.h"
#include "engine/request/sound_rates.h"
#include "engine/request/upscaling.h"

namespace kinora {
namespace {

constexpr double kSameRate = 0.0002;  // relative; accepts 23.976 for 24000/1001

}  // namespace

void Rules::CheckInputs() {
  const GenerationRequest& r = request_;
  const auto check_list = [this](const std::string& field, const auto& list, int64_t most, auto check) {
    const int64_t count = static_cast<int64_t>(list.size());
    if (count > most) return Add(field, absl::StrCat(count, " of them; at most ", most));
    for (int64_t i = 0; i < count; ++i) (this->*check)(absl::StrCat(field, "[", i, "]"), list[i]);
  };
  if (!r.conditions.empty() && model_ != nullptr && !model_->parts.video_encoder) {
    Add("conditions", "this model was loaded without a video encoder; omit them");
  }
  check_list("conditions", r.conditions, kMaxConditions, &Rules::CheckCondition);
  check_list("loras", r.loras, kMaxLoras, &Rules::CheckLora);
  std::set<std::string> named;
  for (size_t i = 0; i < std::min<size_t>(r.loras.size(), kMaxLoras); ++i) {
    if (named.insert(r.loras[i].id).second || r.loras[i].id.empty()) continue;
    Add(absl::StrCat("loras[", i, "].id"), Cat(r.loras[i].id, " is given twice; give each LoRA once"));
  }
  if (r.retake.has_value()) CheckRetake(*r.retake);
  if (r.audio.has_value()) {
    CheckText("audio.media.input_id", r.audio->input_id);
    CheckNumber("audio.start_seconds", r.audio->start_seconds, 0, kAnyNumber);
  }
  if (FindUpscaling(r.upsampler) == nullptr) Add("upsampler", Cat("not one of ", kUpscalings));
}

void Rules::CheckRetake(const RetakeInput& retake) {
  const double start = retake.start_seconds, end = retake.end_seconds;
  CheckText("retake.clip.input_id", retake.input_id);
  CheckNumber("retake.start_seconds", start, 0, sized_ ? request_.num_frames / request_.frame_rate : kAnyNumber);
  CheckNumber("retake.end_seconds", end, std::isfinite(start) ? std::max(0.0, start) : 0, kAnyNumber);
  if (start == end) Add("retake.end_seconds", "must be greater than start_seconds");
  if (retake.keep_video && retake.keep_audio)
    Add("retake.keep_audio", "cannot be combined with keep_video; nothing would be regenerated");
  if (!request_.conditions.empty()) Add("conditions", "cannot be combined with retake; omit them");
  if (model_ != nullptr && !model_->parts.video_encoder) {
    Add("retake", "this model was loaded without the video encoder that a retake needs");
  }
  if (model_ != nullptr && !model_->parts.audio_encoder && retake.audio != nullptr) {
    Add("retake", "this model was loaded without the audio encoder that a retake needs");
  }
  if (recipe_ != nullptr && !recipe_->upsampler.empty()) {
    Add("recipe", Cat(RecipeName(request_.recipe), " has two stages, but a retake uses one; nearest: ",
                      RecipeName(recipe_->guided ? Recipe::kOneStage : Recipe::kDistilled)));
  }
  if (retake.keep_video) CheckKeptGuidance("video_guidance", request_.video_guidance);
  if (retake.keep_audio) CheckKeptGuidance("audio_guidance", request_.audio_guidance);
  if (retake.clip != nullptr && retake.keep_audio && retake.audio == nullptr) {
    Add("retake.keep_audio", "the clip has no sound; omit it to generate sound");
  }
  if (retake.clip != nullptr) CheckClipRate(retake.clip->frame_rate);
  if (sized_ && retake.clip != nullptr) CheckExtension(retake);
}

// Rejects guidance other than STG for a kept modality. The STG pass perturbs it, to predict the other modality from it;
// other terms would change nothing.
void Rules::CheckKeptGuidance(const std::string& field, const std::optional<GuidanceParams>& guidance) {
  const GuidanceParams g = guidance.value_or(GuidanceParams{}), off;
  const struct {
    const char* term;
    double value, off;
  } terms[] = {{"cfg_scale", g.cfg_scale, off.cfg_scale},
               {"modality_scale", g.modality_scale, off.modality_scale},
               {"rescale", g.rescale, off.rescale},
               {"skip_step", static_cast<double>(g.skip_step), static_cast<double>(off.skip_step)}};
  for (const auto& [term, value, none] : terms) {
    if (value == none) continue;
    Add(absl::StrCat(field, ".", term),
        absl::StrCat("the retake keeps this modality, so only stg_scale and stg_blocks apply to it; nearest: ", none));
  }
}

// Frames are copied one by one, so at another rate they would drift from their sound and from the window.
void Rules::CheckClipRate(double rate) {
  if (rate == 0 || std::abs(rate - request_.frame_rate) < kSameRate * rate) return;
  Add("frame_rate",
      absl::StrCat(request_.frame_rate, " differs from the frame rate of the retake's clip; nearest: ", rate));
}

// The window must cover everything beyond the end of the clip.
void Rules::CheckExtension(const RetakeInput& retake) {
  const int64_t multiple = std::max(1, recipe_->frame_multiple);
  const int64_t kept = retake.clip->frames < 1 ? 0 : (retake.clip->frames - 1) / multiple * multiple + 1;
  const double rate = request_.frame_rate, ends = static_cast<double>(kept) / rate;
  if (kept == 0) return Add("retake.clip", "has no picture");
  if (kept >= request_.num_frames) return;
  const double whole = request_.num_frames / rate, half_a_frame = 0.5 / rate;
  const bool late = retake.start_seconds > ends + half_a_frame;
  if (retake.keep_video || retake.keep_audio) {
    Add("num_frames",
        absl::StrCat(request_.num_frames, " frames, but the kept clip has ", retake.clip->frames, "; nearest: ", kept));
  } else if (late || retake.end_seconds < whole - half_a_frame) {
    Add(late ? "retake.start_seconds" : "retake.end_seconds",
        absl::StrCat("the clip ends at ", ends, " s, so everything from there to ", whole,
                     " s would be new; nearest: ", late ? ends : whole, ", or ", kept, " frames"));
  }
}

// The rules of audio-to-video.
void Rules::CheckSound() {
  const GenerationRequest& r = request_;
  if (r.audio->input_id.empty() && r.audio->audio == nullptr) Add("audio", "needs a sound; name it in media");
  if (r.retake.has_value())
    Add("audio", "cannot be combined with retake, whose clip has its own sound; omit one of them");
  if (model_ != nullptr && !model_->parts.audio_encoder) {
    Add("audio", "this model was loaded without the audio encoder that a given sound needs");
  }
  if (r.audio_guidance.has_value() && Guides(*r.audio_guidance)) {
    Add("audio_guidance", "a given sound is not guided; omit it or turn every term off");
  }
  if (r.audio->audio != nullptr && r.num_frames > 0) CheckSoundLength();
}

// Checks that the sound lasts as long as the clip and that a file can hold its sample rate.
void Rules::CheckSoundLength() {
  const AudioGuide& guide = *request_.audio;
  if (const int32_t rate = guide.audio->sample_rate; rate < kLowestSampleRate || rate > kHighestSampleRate) {
    Add("audio", Cat(rate, " Hz; the clip's file supports ", kLowestSampleRate, " to ", kHighestSampleRate));
  }
  const SoundSpan span = HeardSpan(guide, request_.num_frames, request_.frame_rate);
  if (span.begin + span.samples <= guide.audio->samples) return;
  const double seconds = static_cast<double>(guide.audio->samples) / guide.audio->sample_rate;
  const int64_t frames = FramesHeard(guide, request_.frame_rate, recipe_ != nullptr ? recipe_->frame_multiple : 1);
  const double latest = seconds - 1 / request_.frame_rate;  // the last start that leaves one frame
  if (frames < 1 && latest < 0) {
    return Add("audio", absl::StrCat("the sound lasts ", seconds, " s, less than one frame; give a longer one"));
  }
  if (frames < 1) {
    return Add("audio.start_seconds", absl::StrCat("the sound lasts ", seconds, " s, which leaves no frame after ",
                                                   guide.start_seconds, "; nearest: ", latest));
  }
  Add("num_frames", absl::StrCat(request_.num_frames, " frames last longer than the given sound: ", seconds,
                                 " s, starting at ", guide.start_seconds, "; nearest: ", frames));
}

void Rules::CheckSoundAlone() {
  const GenerationRequest& r = request_;
  if (r.audio.has_value())
    Add("audio", "cannot be combined with audio_only, which generates the sound; omit one of them");
  if (r.width != 0) Add("width", "audio_only: there is no picture; omit it");
  if (r.height != 0) Add("height", "audio_only: there is no picture; omit it");
  if (!r.conditions.empty()) Add("conditions", "audio_only: there is no picture; omit them");
  if (r.retake.has_value()) Add("retake", "cannot be combined with audio_only; omit one of them");
  if (r.schedule_tokens == -1)
    Add("schedule_tokens", "-1 means the picture's token count, but there is no picture; nearest: 0");
  if (r.video_guidance.has_value() && Guides(*r.video_guidance)) {
    Add("video_guidance", "audio_only: there is no picture; omit it or turn every term off");
  }
  if (r.audio_guidance.has_value() && r.audio_guidance->NeedsModality()) {
    Add("audio_guidance.modality_scale", "audio_only: there is no picture to guide the sound; nearest: 1");
  }
  if (recipe_ == nullptr || recipe_->upsampler.empty()) return;
  Add("recipe", Cat(RecipeName(r.recipe), " has two stages, but audio_only uses one; nearest: ",
                    RecipeName(recipe_->guided ? Recipe::kOneStage : Recipe::kDistilled)));
}

void Rules::CheckCondition(const std::string& field, const ConditionInput& condition) {
  if (condition.media == ConditionInput::Media::kNone) Add(field, "needs an image or a clip");
  const bool image = condition.media == ConditionInput::Media::kImage;
  CheckText(field + (image ? ".image.input_id" : ".clip.input_id"), condition.input_id);
  CheckNumber(field + ".frame", condition.frame, 0, sized_ ? request_.num_frames - 1 : kAnyNumber);
  CheckNumber(field + ".strength", condition.strength, 0, 1);
  if (condition.append && condition.frame != 0) Add(field + ".append", "works for frame 0 only");
  CheckNumber(field + ".crf", condition.crf.value_or(0), 0, kMaxCrf);
}

namespace {

bool IsDigest(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  return text.starts_with(kPrefix) && text.size() == kPrefix.size() + 64 &&
         text.find_first_not_of("0123456789abcdef", kPrefix.size()) == text.npos;
}

}  // namespace

void Rules::CheckLoraId(const std::string& field, const std::string& id) {
  constexpr size_t kNamed = 20;
  const std::vector<std::string>& loras = model_->loras;
  if (std::find(loras.begin(), loras.end(), id) != loras.end()) return;
  if (loras.empty()) {
    return Add(field, Cat(id,
                          ": this model was loaded without LoRAs; the operator can add one with --model lora=ID:FILE "
                          "(--worker-model in a frontend) or in lora_folder"));
  }
  const size_t named = std::min(loras.size(), kNamed);
  Add(field, Cat(id, " is not one of this model's LoRAs, which are ",
                 absl::StrJoin(loras.begin(), loras.begin() + static_cast<int64_t>(named), ", "),
                 named < loras.size() ? Cat(" and ", loras.size() - named, " more") : "",
                 "; `kinora models` lists them; the operator can add one in lora_folder"));
}

void Rules::CheckLora(const std::string& field, const LoraInput& lora) {
  if (lora.id.empty()) Add(field + ".id", "is empty");
  if (CheckText(field + ".id", lora.id) && model_ != nullptr && !lora.id.empty()) CheckLoraId(field + ".id", lora.id);
  if (!lora.digest.empty() && !IsDigest(lora.digest)) {
    Add(field + ".digest", "must be \"sha256:\" and 64 lowercase hexadecimal digits, as in ModelInfo.digests");
  }
  CheckNumber(field + ".strength", lora.strength, -kMaxLoraStrength, kMaxLoraStrength);
  if (!lora.strength_stage2.has_value()) return;
  CheckNumber(field + ".strength_stage2", *lora.strength_stage2, -kMaxLoraStrength, kMaxLoraStrength);
  if (recipe_ == nullptr || !recipe_->upsampler.empty()) return;
  Add(field + ".strength_stage2", Cat("the recipe ", RecipeName(request_.recipe), " has one stage; omit it"));
}

}  // namespace kinora
