// The way back from messages to the names of fields.
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/common/timestamps.h"
#include "server/gateway/create_fields.h"
#include "server/gateway/field_json.h"
#include "server/gateway/field_names.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kExactInteger = uint64_t{1} << 53;  // larger ones lose digits in JavaScript

void WriteGuidance(const std::string& side, const v1::Guidance& guidance, Json& out) {
  const auto* descriptor = v1::Guidance::descriptor();
  const auto* reflection = v1::Guidance::GetReflection();
  for (const GuidanceTerm& term : kGuidanceTerms) {
    // An absent term is off, but an absent field would be the recipe's default.
    const bool has = reflection->HasField(guidance, descriptor->FindFieldByName(std::string(term.proto)));
    out[side + std::string(term.name)] = has ? (guidance.*term.get)() : term.off;
  }
  if (guidance.stg_blocks_size() > 0) {
    out[side + "stg_blocks"] = std::vector<int32_t>(guidance.stg_blocks().begin(), guidance.stg_blocks().end());
  }
  out[side + "skip_step"] = guidance.skip_step();
}

Json ConditionFields(const v1::Condition& condition) {
  Json out = condition.has_clip() ? Json{{"clip", condition.clip().input_id()}}
                                  : Json{{"image", condition.image().input_id()}};
  out["frame"] = condition.frame();
  if (condition.has_strength()) out["strength"] = condition.strength();
  if (condition.append()) out["append"] = true;
  if (condition.has_crf()) out["crf"] = condition.crf();
  return out;
}

Json LoraFields(const v1::LoraRef& lora) {
  Json out = {{"id", lora.id()}};
  if (lora.has_strength()) out["strength"] = lora.strength();
  if (lora.has_strength_stage2()) out["strength_stage2"] = lora.strength_stage2();
  if (!lora.digest().empty()) out["digest"] = lora.digest();
  return out;
}

void WriteInputs(const v1::Generation& generation, Json& out) {
  for (const v1::Condition& condition : generation.conditions())
    out["conditions"].push_back(ConditionFields(condition));
  if (generation.has_audio()) {
    out["audio_reference"] = {{"file_id", generation.audio().media().input_id()},
                              {"start_seconds", generation.audio().start_seconds()}};
  }
  if (generation.has_retake()) {
    const v1::Retake& retake = generation.retake();
    out["retake"] = {{"clip", retake.clip().input_id()},
                     {"start_seconds", retake.start_seconds()},
                     {"end_seconds", retake.end_seconds()},
                     {"keep_video", retake.keep_video()},
                     {"keep_audio", retake.keep_audio()}};
  }
  for (const v1::LoraRef& lora : generation.loras()) out["lora"].push_back(LoraFields(lora));
}

void WriteGeneration(const v1::Generation& generation, Json& out) {
  out["prompt"] = generation.prompt();
  if (generation.has_negative_prompt()) out["negative_prompt"] = generation.negative_prompt();
  if (generation.width() > 0) out["width"] = generation.width();
  if (generation.height() > 0) out["height"] = generation.height();
  if (generation.frame_rate() > 0) out["fps"] = generation.frame_rate();
  if (generation.num_frames() > 0) out["num_frames"] = generation.num_frames();
  if (generation.has_auto_length()) {
    out["seconds"] = kAutoSeconds;
    if (generation.auto_length().has_min_seconds()) out["min_seconds"] = generation.auto_length().min_seconds();
    if (generation.auto_length().has_max_seconds()) out["max_seconds"] = generation.auto_length().max_seconds();
  }
  if (generation.has_seed()) {
    const uint64_t seed = generation.seed();
    out["seed"] = seed <= kExactInteger ? Json(seed) : Json(absl::StrCat(seed));
  }
  if (generation.num_inference_steps() > 0) out["num_inference_steps"] = generation.num_inference_steps();
  const int recipe = generation.recipe();
  if (recipe > 0 && recipe <= static_cast<int>(std::size(kRecipeWords))) out["recipe"] = kRecipeWords[recipe - 1];
  if (!generation.upsampler().empty()) out["upsampler"] = generation.upsampler();
  if (generation.sigmas_size() > 0) {
    out["sigmas"] = std::vector<double>(generation.sigmas().begin(), generation.sigmas().end());
  }
  if (generation.schedule_tokens() != 0) out["schedule_tokens"] = generation.schedule_tokens();
  if (generation.audio_only()) out["audio_only"] = true;
  if (generation.has_video_guidance()) WriteGuidance("video_", generation.video_guidance(), out);
  if (generation.has_audio_guidance()) WriteGuidance("audio_", generation.audio_guidance(), out);
}

void WriteOutput(const v1::Output& output, Json& out) {
  const int container = output.container();
  if (container > 0 && container <= static_cast<int>(std::size(kContainerWords))) {
    out["container"] = kContainerWords[container - 1];
  }
  if (output.without_audio()) out["generate_sound"] = false;
  if (output.has_crf()) out["output_crf"] = output.crf();
  if (output.embed_parameters()) out["embed_parameters"] = true;
  if (output.embed_prompt()) out["embed_prompt"] = true;
  if (output.has_ttl()) out["ttl_seconds"] = absl::ToDoubleSeconds(FromProto(output.ttl()));
  if (output.preview_every_steps() > 0) out["preview_every_steps"] = output.preview_every_steps();
  if (output.thumbnail()) out["thumbnail"] = true;
  if (output.trace()) out["trace"] = true;
}

// The fields of Generation, Output and Scheduling whose names differ. A path that begins with `path`, and ends or goes
// on with "." or "[" after it, begins with `field` instead.
struct Renamed {
  std::string_view path, field;
};
constexpr Renamed kRenamed[] = {{"generation.frame_rate", "fps"},
                                {"generation.auto_length.min_seconds", "min_seconds"},
                                {"generation.auto_length.max_seconds", "max_seconds"},
                                {"generation.auto_length", "seconds"},
                                {"generation.loras", "lora"},
                                {"generation.audio.media.input_id", "audio_reference"},
                                {"generation.audio.media", "audio_reference"},
                                {"generation.audio", "audio_reference"},
                                {"generation.retake.clip.input_id", "retake.clip"},
                                {"output.crf", "output_crf"},
                                {"output.without_audio", "generate_sound"},
                                {"output.ttl", "ttl_seconds"},
                                {"scheduling.deadline", "deadline_seconds"}};

// Whether `path` is `whole` or lies within it; removes it then.
bool TakeName(std::string_view whole, std::string_view& path) {
  if (path.substr(0, whole.size()) != whole) return false;
  if (path.size() > whole.size() && path[whole.size()] != '.' && path[whole.size()] != '[') return false;
  path.remove_prefix(whole.size());
  return true;
}

// path: after "generation.video_guidance".
std::string GuidanceField(const std::string& side, std::string_view path) {
  if (path.empty()) return side == "video_" ? "guidance_scale" : side + "cfg_scale";
  path.remove_prefix(1);
  for (const GuidanceTerm& term : kGuidanceTerms) {
    if (path == term.proto) return side + std::string(term.name);
  }
  return side + std::string(path);
}

}  // namespace

Json ToFields(const v1::Generation& generation, const v1::Output& output) {
  Json out = Json::object();
  WriteGeneration(generation, out);
  WriteInputs(generation, out);
  WriteOutput(output, out);
  return out;
}

std::string FieldOfPath(std::string_view path) {
  if (TakeName("generation.video_guidance", path)) return GuidanceField("video_", path);
  if (TakeName("generation.audio_guidance", path)) return GuidanceField("audio_", path);
  for (const Renamed& renamed : kRenamed) {
    if (TakeName(renamed.path, path)) return absl::StrCat(std::string(renamed.field), std::string(path));
  }
  std::string field(path);
  for (const char* message : {"generation.", "output.", "scheduling."}) {
    if (absl::StartsWith(field, message)) field.erase(0, std::string_view(message).size());
  }
  if (absl::StartsWith(field, "conditions[") && absl::EndsWith(field, ".input_id")) {
    field.resize(field.size() - std::string_view(".input_id").size());
  }
  return field;
}

}  // namespace kinora
