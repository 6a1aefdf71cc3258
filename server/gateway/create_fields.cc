#include "server/gateway/create_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/command_line.h"
#include "engine/base/strings.h"
#include "server/common/status_details.h"
#include "server/common/timestamps.h"
#include "server/gateway/field_names.h"
#include "server/gateway/field_reader.h"
#include "server/gateway/foreign_fields.h"
#include "server/gateway/media_fields.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMaxFrames = 1e6;  // of a length in seconds
constexpr size_t kMaxViolations = 20;
constexpr size_t kMaxIgnored = 20, kMaxIgnoredBytes = 64;

const v1::Generation& DefaultsOf(const v1::ModelInfo& model, v1::Generation::Recipe recipe) {
  for (int i = 0; i < std::min(model.recipes_size(), model.recipe_defaults_size()); ++i) {
    if (model.recipes(i) == recipe) return model.recipe_defaults(i);
  }
  return model.defaults();
}

// Frames are a multiple of this, plus 1. A recipe or upsampler that the model lacks is the frontend's to reject.
double FrameMultiple(const v1::ModelInfo& model, v1::Generation::Recipe recipe, const std::string& upsampler) {
  for (const v1::ModelInfo::Limits& limits : model.limits()) {
    if (limits.recipe() == recipe && (upsampler.empty() || limits.upsampler() == upsampler)) {
      return std::max(limits.frame_multiple(), 1);
    }
  }
  return std::max(model.frames_per_token(), 1);
}

// "768x512". 0 x 0: absent or wrong.
std::pair<int32_t, int32_t> ReadSize(FieldReader& reader) {
  const auto text = reader.Text("size");
  if (!text || text->empty()) return {0, 0};  // SGLang's default is ""
  const std::vector<std::string> sides = absl::StrSplit(absl::AsciiStrToLower(*text), 'x');
  int32_t width = 0, height = 0;
  if (sides.size() == 2 && absl::SimpleAtoi(sides[0], &width) && absl::SimpleAtoi(sides[1], &height) && width > 0 &&
      height > 0) {
    return {width, height};
  }
  reader.Reject("size", Shortened(*text) + ": must be WIDTHxHEIGHT in pixels, such as 768x512");
  return {0, 0};
}

class Creation {
 public:
  Creation(const RequestFields& fields, const v1::ModelInfo& model, const FieldRules& rules)
      : fields_(fields), model_(model), rules_(rules), reader_(fields.values(), "", violations_) {}

  absl::StatusOr<CreateFields> Run() {
    MediaFields media(fields_, rules_, violations_, out_);
    CheckNames();
    ReadTexts();
    ReadSampling();
    ReadShape();
    media.Read(reader_);
    ReadGuidance();
    ReadLoras();
    ReadOutput();
    ReadScheduling();
    ReadLabels();
    CheckFiles(media.UnusedFiles());
    if (violations_.size() > kMaxViolations) violations_.resize(kMaxViolations);
    if (!violations_.empty()) return InvalidFields(violations_);
    return std::move(out_);
  }

 private:
  void CheckNames();
  void Ignore(const std::string& name);
  void CheckFiles(const std::vector<std::string>& unused);
  void ReadTexts();
  void ReadSampling();
  void ReadShape();
  void ReadSeconds();
  void ReadAutoLength();
  void ReadGuidance();
  void ReadGuidanceOf(const std::string& side, bool generated, v1::Guidance* (v1::Generation::*mutable_guidance)());
  void ReadLoras();
  void ReadLora(const std::string& field, const Json& value);
  void ReadOutput();
  void ReadScheduling();
  void ReadLabels();
  void AddLabel(const std::string& field, const std::string& key, const std::string& value);
  template <typename Set>
  void ReadInt32(const char* name, int64_t least, Set set) {
    if (const auto value = reader_.Integer(name, least, kMaxInt32)) set(static_cast<int32_t>(*value));
  }
  template <typename Set>
  void ReadBoolean(const char* name, Set set) {
    if (const auto value = reader_.Boolean(name)) set(*value);
  }
  v1::Generation& generation() { return *out_.request.mutable_generation(); }

  const RequestFields& fields_;
  const v1::ModelInfo& model_;
  const FieldRules& rules_;
  CreateFields out_;
  FieldViolations violations_;
  FieldReader reader_;
};

void Creation::CheckNames() {
  std::vector<std::string_view> known(std::begin(kFieldNames), std::end(kFieldNames));
  Json unknown = Json::object();
  for (const auto& [name, value] : fields_.values().items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const ForeignField* foreign = FindForeignField(name);
    const std::string text = value.is_string() ? value.get<std::string>() : ToText(value);
    bool harmless = foreign != nullptr && value.is_null();
    for (const absl::string_view without :
         absl::StrSplit(foreign == nullptr ? "" : std::string(foreign->without), '|')) {
      harmless |= foreign != nullptr && !without.empty() && (text == without || ToText(value) == without);
    }
    if (harmless) continue;
    if (rules_.ignore_unknown) {
      Ignore(name);
    } else if (foreign != nullptr) {
      reader_.Reject(name, absl::StrCat("is not accepted: ", std::string(foreign->reason)));
    } else {
      unknown[name] = nullptr;
    }
  }
  FieldReader(unknown, "", violations_).RejectOthers(known);
}

// As a header may list it: printable, and not many.
void Creation::Ignore(const std::string& name) {
  if (out_.ignored.size() < kMaxIgnored) out_.ignored.push_back(absl::CHexEscape(name.substr(0, kMaxIgnoredBytes)));
}

void Creation::CheckFiles(const std::vector<std::string>& unused) {
  for (const std::string& name : unused) {
    if (rules_.ignore_unknown) {
      Ignore(name);
    } else {
      reader_.Reject(name, absl::StrCat("no field uses this file; name it in one, as \"part:", name, "\""));
    }
  }
}

void Creation::ReadTexts() {
  if (const auto model = reader_.Text("model")) out_.request.set_model(*model);
  if (const auto id = reader_.Text("request_id")) out_.request.set_request_id(*id);
  if (const auto prompt = reader_.Text("prompt")) {
    generation().set_prompt(*prompt);
  } else if (!reader_.Has("prompt")) {
    reader_.Reject("prompt", "is missing; \"\" is a clip without a prompt");
  }
  if (const auto negative = reader_.Text("negative_prompt")) generation().set_negative_prompt(*negative);
  if (const auto upsampler = reader_.Text("upsampler")) generation().set_upsampler(*upsampler);
  const auto n = reader_.Integer("n", 1, kMaxInt32);
  if (n && *n != 1) reader_.Reject("n", absl::StrCat(*n, ": a request makes one clip; send ", *n, " requests"));
}

void Creation::ReadSampling() {
  if (const auto word = reader_.Word("recipe", kRecipeWords)) {
    generation().set_recipe(static_cast<v1::Generation::Recipe>(*word + 1));
  }
  if (const auto seed = reader_.Unsigned("seed")) generation().set_seed(*seed);
  ReadInt32("num_inference_steps", 1, [&](int32_t v) { generation().set_num_inference_steps(v); });
  ReadInt32("schedule_tokens", -1, [&](int32_t v) { generation().set_schedule_tokens(v); });
  if (const auto sigmas = reader_.Numbers("sigmas")) {
    generation().mutable_sigmas()->Assign(sigmas->begin(), sigmas->end());
  }
  if (rules_.audio_only) generation().set_audio_only(true);
  if (const auto audio_only = reader_.Boolean("audio_only")) {
    if (rules_.audio_only && !*audio_only) reader_.Reject("audio_only", "this route makes sound alone");
    generation().set_audio_only(*audio_only);
  }
}

void Creation::ReadShape() {
  const auto [width, height] = ReadSize(reader_);
  generation().set_width(width);
  generation().set_height(height);
  ReadInt32("width", 1, [&](int32_t v) {
    if (generation().width() != 0 && v != generation().width()) reader_.Reject("width", "differs from size; send one");
    generation().set_width(v);
  });
  ReadInt32("height", 1, [&](int32_t v) {
    if (generation().height() != 0 && v != generation().height()) {
      reader_.Reject("height", "differs from size; send one");
    }
    generation().set_height(v);
  });
  if (const auto fps = reader_.Number("fps")) {
    if (*fps <= 0) reader_.Reject("fps", "must be greater than 0");
    generation().set_frame_rate(*fps);
  }
  ReadInt32("num_frames", 1, [&](int32_t v) { generation().set_num_frames(v); });
  if (reader_.Is("seconds", kAutoSeconds)) {
    if (generation().num_frames() == 0) return ReadAutoLength();
  } else {
    ReadSeconds();
  }
  for (const std::string_view name : {"min_seconds", "max_seconds"}) {
    if (!reader_.Has(name)) continue;
    reader_.Reject(
        name, Cat("bounds the length that the model chooses; add seconds \"", kAutoSeconds, "\", and omit num_frames"));
  }
}

void Creation::ReadAutoLength() {
  v1::AutoLength& length = *generation().mutable_auto_length();
  if (const auto shortest = reader_.Number("min_seconds")) length.set_min_seconds(*shortest);
  if (const auto longest = reader_.Number("max_seconds")) length.set_max_seconds(*longest);
}

void Creation::ReadSeconds() {
  const auto seconds = reader_.Number("seconds");
  if (!seconds) return;
  v1::Generation::Recipe recipe = generation().recipe();
  if (recipe == v1::Generation::RECIPE_UNSPECIFIED) recipe = model_.defaults().recipe();
  const double rate =
      generation().frame_rate() != 0 ? generation().frame_rate() : DefaultsOf(model_, recipe).frame_rate();
  const double frames = *seconds * rate;
  if (!(*seconds > 0) || frames > kMaxFrames) {
    return reader_.Reject("seconds", absl::StrCat(*seconds, *seconds > 0 ? ": too long" : ": must be greater than 0"));
  }
  if (generation().num_frames() != 0 || !(frames > 0)) return;
  const double multiple = FrameMultiple(model_, recipe, generation().upsampler());
  const double steps = std::ceil(std::max(frames - 1, 0.0) / multiple - 0.5);
  generation().set_num_frames(static_cast<int32_t>(multiple * std::max(steps, 0.0)) + 1);
}

void Creation::ReadGuidance() {
  const bool no_picture = generation().audio_only() || generation().retake().keep_video();
  const bool no_sound = generation().has_audio() || generation().retake().keep_audio();
  const auto scale = reader_.Number("guidance_scale");
  if (scale && !no_picture) generation().mutable_video_guidance()->set_cfg_scale(*scale);
  if (scale && !no_sound) generation().mutable_audio_guidance()->set_cfg_scale(*scale);
  ReadGuidanceOf("video_", generation().has_video_guidance(), &v1::Generation::mutable_video_guidance);
  ReadGuidanceOf("audio_", generation().has_audio_guidance(), &v1::Generation::mutable_audio_guidance);
}

void Creation::ReadGuidanceOf(const std::string& side, bool given,
                              v1::Guidance* (v1::Generation::*mutable_guidance)()) {
  v1::Guidance guidance;
  for (const GuidanceTerm& term : kGuidanceTerms) {
    const auto value = reader_.Number(side + std::string(term.name));
    if (value) (guidance.*term.set)(*value);
    given |= value.has_value();
  }
  if (const auto blocks = reader_.Integers(side + "stg_blocks")) {
    guidance.mutable_stg_blocks()->Assign(blocks->begin(), blocks->end());
    given = true;
  }
  if (const auto skip = reader_.Integer(side + "skip_step", 0, kMaxInt32)) {
    guidance.set_skip_step(static_cast<int32_t>(*skip));
    given = true;
  }
  if (!given) return;
  (generation().*mutable_guidance)()->MergeFrom(guidance);
  (generation().*mutable_guidance)()->set_keep_defaults(true);
}

void Creation::ReadLoras() {
  const auto list = reader_.List("lora");
  if (!list) return;
  for (size_t i = 0; i < list->size(); ++i) {
    ReadLora(list->size() == 1 ? "lora" : absl::StrCat("lora[", i, "]"), (*list)[i]);
  }
}

void Creation::ReadLora(const std::string& field, const Json& value) {
  const Json object = value.is_string() ? Json{{"id", value}} : value;
  if (!object.is_object()) return reader_.Reject(field, "must be the ID of a LoRA, an object, or a list of these");
  FieldReader lora(object, field + ".", violations_);
  for (const char* name : {"path", "lora_path", "local_path", "int_id", "lora_int_id"}) {
    if (lora.Has(name)) lora.Reject(name, "is not accepted; name a LoRA of the server's folder by id");
  }
  lora.RejectOthers({"id", "name", "lora_name", "adapter", "strength", "scale", "lora_scale", "strength_stage2",
                     "digest", "path", "lora_path", "local_path", "int_id", "lora_int_id"});
  v1::LoraRef* out = generation().add_loras();
  for (const char* name : {"id", "name", "lora_name", "adapter"}) {
    const auto id = lora.Text(name);
    if (id && !out->id().empty() && out->id() != *id) lora.Reject(name, "differs from another name of the same LoRA");
    if (id) out->set_id(*id);
  }
  if (out->id().empty()) reader_.Reject(field, "has no id; GET /v1/models lists the LoRAs");
  for (const char* name : {"strength", "scale", "lora_scale"}) {
    const auto strength = lora.Number(name);
    if (strength && out->has_strength() && out->strength() != *strength) lora.Reject(name, "differs from strength");
    if (strength) out->set_strength(*strength);
  }
  if (const auto strength = lora.Number("strength_stage2")) out->set_strength_stage2(*strength);
  if (const auto digest = lora.Text("digest")) out->set_digest(*digest);
}

void Creation::ReadOutput() {
  v1::Output* output = out_.request.mutable_output();
  if (const auto word = reader_.Word("container", kContainerWords)) {
    output->set_container(static_cast<v1::Output::Container>(*word + 1));
  }
  ReadBoolean("generate_sound", [&](bool v) { output->set_without_audio(!v); });
  if (output->without_audio() && generation().audio_only()) {
    reader_.Reject("generate_sound", "false, but nothing else is asked for; omit it");
  }
  ReadInt32("output_crf", 0, [&](int32_t v) { output->set_crf(v); });
  ReadBoolean("embed_parameters", [&](bool v) { output->set_embed_parameters(v); });
  ReadBoolean("embed_prompt", [&](bool v) { output->set_embed_prompt(v); });
  ReadBoolean("thumbnail", [&](bool v) { output->set_thumbnail(v); });
  ReadBoolean("trace", [&](bool v) { output->set_trace(v); });
  ReadInt32("preview_every_steps", 0, [&](int32_t v) { output->set_preview_every_steps(v); });
  if (const auto ttl = reader_.Number("ttl_seconds")) *output->mutable_ttl() = ToProto(absl::Seconds(*ttl));
}

void Creation::ReadScheduling() {
  if (const auto priority = reader_.Integer("priority", -kMaxInt32, kMaxInt32)) {
    out_.request.mutable_scheduling()->set_priority(static_cast<int32_t>(*priority));
  }
  if (const auto deadline = reader_.Number("deadline_seconds")) {
    *out_.request.mutable_scheduling()->mutable_deadline() = ToProto(absl::Seconds(*deadline));
  }
}

void Creation::ReadLabels() {
  for (const std::string name : {"labels", "metadata"}) {
    const auto object = reader_.Object(name);
    if (!object) continue;
    FieldReader labels(*object, name + ".", violations_);
    for (const auto& [key, unused] : object->items()) {
      if (const auto value = labels.Text(key)) AddLabel(labels.Path(key), key, *value);
    }
  }
  if (const auto user = reader_.Text("user")) AddLabel("user", "user", *user);
}

void Creation::AddLabel(const std::string& field, const std::string& key, const std::string& value) {
  const auto [found, added] = out_.request.mutable_labels()->insert({key, value});
  if (!added && found->second != value) reader_.Reject(field, "another field gives this label another value");
}

}  // namespace

absl::StatusOr<CreateFields> ToCreateRequest(const RequestFields& fields, const v1::ModelInfo& model,
                                             const FieldRules& rules) {
  return Creation(fields, model, rules).Run();
}

absl::Status SetInput(const PendingInput& pending, const v1::Input& input, v1::CreateVideoRequest& request) {
  const bool clip = pending.clip_or_image && CanBeUsedAs(InputUse::kClip, input.media_type());
  const InputUse use = clip ? InputUse::kClip : pending.use;
  if (!CanBeUsedAs(use, input.media_type())) {
    const std::string wanted = pending.clip_or_image ? "an image or a clip" : InputUseName(use);
    return InvalidField(pending.field, absl::StrCat("is ", input.media_type(), "; must be ", wanted));
  }
  v1::Generation* generation = request.mutable_generation();
  if (pending.place == PendingInput::Place::kAudio) {
    generation->mutable_audio()->mutable_media()->set_input_id(input.id());
  } else if (pending.place == PendingInput::Place::kRetake) {
    generation->mutable_retake()->mutable_clip()->set_input_id(input.id());
  } else {
    v1::Condition* condition = generation->mutable_conditions(pending.condition);
    (use == InputUse::kClip ? condition->mutable_clip() : condition->mutable_image())->set_input_id(input.id());
    if (use == InputUse::kClip) condition->clear_crf();  // image_crf
  }
  return absl::OkStatus();
}

std::vector<std::string_view> CreateFieldNames() { return {std::begin(kFieldNames), std::end(kFieldNames)}; }

}  // namespace kinora
