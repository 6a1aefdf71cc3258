#include "server/gateway/media_fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/gateway/data_url.h"
#include "server/gateway/input_url.h"

namespace kinora {
namespace {

using Json = nlohmann::ordered_json;
using Place = PendingInput::Place;
using Source = PendingInput::Source;

constexpr char kPart[] = "part:";
constexpr size_t kInputIdSize = 64;  // SHA-256 in hexadecimal digits

bool IsInputId(const std::string& text) {
  return text.size() == kInputIdSize && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

// What a data: URL states about its data. Nothing, or a type of any bytes, leaves it to the data.
bool MayBeUsedAs(const std::string& media_type, InputUse use, bool clip_or_image) {
  if (media_type.empty() || media_type == "application/octet-stream") return true;
  return CanBeUsedAs(use, media_type) || (clip_or_image && CanBeUsedAs(InputUse::kClip, media_type));
}

std::string Wanted(InputUse use, bool clip_or_image) {
  return clip_or_image ? "an image or a clip" : std::string(InputUseName(use));
}

}  // namespace

struct MediaFields::Reference {
  std::string_view name;
  Target target;
  std::vector<std::string_view> keys;  // of its object form, any one of them; empty: only a text
};

const MediaFields::Reference MediaFields::kReferences[] = {
    {"input_reference", {.clip_or_image = true}, {"image_url", "video_url", "file_id"}},
    {"image_reference", {}, {"image_url", "file_id"}},
    {"reference_url", {}, {}},
    {"video_reference", {.use = InputUse::kClip}, {"video_url", "file_id"}},
    {"video_url", {.use = InputUse::kClip}, {}},
    {"audio_reference", {.place = Place::kAudio, .use = InputUse::kSound}, {"audio_url", "file_id", "start_seconds"}}};

void MediaFields::Read(FieldReader& reader) {
  std::string first;
  for (const Reference& reference : kReferences) {
    const std::string name(reference.name);
    if (!reader.Has(name) && !fields_.files().contains(name)) continue;
    if (reference.target.place == Place::kCondition && !std::exchange(first, name).empty()) {
      Reject(name, "only one reference can be given; use `conditions` for several pictures");
      continue;
    }
    ReadReference(reference, reader);
  }
  ReadConditions(reader);
  ReadRetake(reader);
  if (const auto crf = reader.Integer("image_crf", 0, kMaxInt32)) {
    for (v1::Condition& condition : *out_.request.mutable_generation()->mutable_conditions()) {
      if (condition.has_image() && !condition.has_crf()) condition.set_crf(static_cast<int32_t>(*crf));
    }
  }
}

std::vector<std::string> MediaFields::UnusedFiles() const {
  std::vector<std::string> unused;
  for (const std::string& name : fields_.files()) {
    if (!used_files_.contains(name)) unused.push_back(name);
  }
  return unused;
}

void MediaFields::ReadReference(const Reference& reference, FieldReader& reader) {
  const std::string name(reference.name);
  if (fields_.files().contains(name)) return Put(name, absl::StrCat(kPart, name), reference.target);
  const Json& value = fields_.values().at(name);
  const bool object = value.is_object() || (value.is_string() && absl::StartsWith(value.get<std::string>(), "{"));
  if (object && !reference.keys.empty()) {
    if (const auto parsed = reader.Object(name)) ReadReferenceObject(reference, *parsed);
  } else if (const auto text = reader.Text(name)) {
    Put(name, *text, reference.target);
  }
}

void MediaFields::ReadReferenceObject(const Reference& reference, const Json& object) {
  const std::string name(reference.name);
  FieldReader reader(object, name + ".", violations_);
  reader.RejectOthers(reference.keys);
  std::vector<std::string> given;
  for (const std::string_view key : reference.keys) {
    if (key != "start_seconds" && reader.Has(key)) given.emplace_back(key);
  }
  if (given.size() != 1) {
    return Reject(name, absl::StrCat("must have exactly one of ", std::string(reference.keys[0]), " and file_id"));
  }
  if (const auto text = reader.Text(given[0])) Put(reader.Path(given[0]), *text, reference.target);
  if (reference.target.place != Place::kAudio) return;
  const auto start = reader.Number("start_seconds");
  if (start) out_.request.mutable_generation()->mutable_audio()->set_start_seconds(*start);
}

void MediaFields::ReadConditions(FieldReader& reader) {
  const auto list = reader.List("conditions");
  if (!list) return;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string field = absl::StrCat("conditions[", i, "]");
    if ((*list)[i].is_object()) {
      ReadCondition(field, (*list)[i]);
    } else {
      Reject(field, "must be an object with image or clip, and frame");
    }
  }
}

void MediaFields::ReadCondition(const std::string& field, const Json& object) {
  FieldReader reader(object, field + ".", violations_);
  reader.RejectOthers({"image", "clip", "frame", "strength", "append", "crf"});
  if (reader.Has("image") == reader.Has("clip")) return Reject(field, "must have either image or clip");
  const std::string key = reader.Has("image") ? "image" : "clip";
  const auto text = reader.Text(key);
  const int before = out_.request.generation().conditions_size();
  if (text) Put(reader.Path(key), *text, {.use = key == "image" ? InputUse::kImage : InputUse::kClip});
  v1::Condition unused;  // takes the values, so that they are checked, if the file is wrong
  auto* conditions = out_.request.mutable_generation()->mutable_conditions();
  v1::Condition& condition = conditions->size() > before ? *conditions->Mutable(before) : unused;
  if (const auto frame = reader.Integer("frame", 0, kMaxInt32)) condition.set_frame(static_cast<int32_t>(*frame));
  if (const auto strength = reader.Number("strength")) condition.set_strength(*strength);
  if (const auto append = reader.Boolean("append")) condition.set_append(*append);
  if (const auto crf = reader.Integer("crf", 0, kMaxInt32)) condition.set_crf(static_cast<int32_t>(*crf));
}

void MediaFields::ReadRetake(FieldReader& reader) {
  const auto object = reader.Object("retake");
  if (!object) return;
  FieldReader retake(*object, "retake.", violations_);
  retake.RejectOthers({"clip", "start_seconds", "end_seconds", "keep_video", "keep_audio"});
  for (const char* name : {"clip", "start_seconds", "end_seconds"}) {
    if (!retake.Has(name)) retake.Reject(name, "is missing");
  }
  v1::Retake* out = out_.request.mutable_generation()->mutable_retake();
  if (const auto text = retake.Text("clip")) {
    Put(retake.Path("clip"), *text, {.place = Place::kRetake, .use = InputUse::kClip});
  }
  out->set_start_seconds(retake.Number("start_seconds").value_or(0));
  out->set_end_seconds(retake.Number("end_seconds").value_or(0));
  out->set_keep_video(retake.Boolean("keep_video").value_or(false));
  out->set_keep_audio(retake.Boolean("keep_audio").value_or(false));
}

void MediaFields::Put(const std::string& field, const std::string& text, const Target& target) {
  if (IsInputId(text) && !target.clip_or_image) {
    int condition = 0;
    return PlaceOf(target, condition)->set_input_id(text);
  }
  PendingInput pending{.field = field, .use = target.use, .source = Source::kStored, .value = text};
  if (IsInputId(text)) return PutPending(std::move(pending), target);
  if (IsDataUrl(text)) return PutData(field, text, target);
  if (IsServerUrl(text)) return PutUrl(field, text, target);
  if (!absl::StartsWith(text, kPart)) {
    return Reject(field,
                  "must be a file part, \"part:NAME\", a data: or https:// URL, or an input ID; paths are never read");
  }
  pending.source = Source::kPart;
  pending.value = text.substr(sizeof(kPart) - 1);
  if (!fields_.files().contains(pending.value)) {
    return Reject(field, absl::StrCat("the body has no file part with the name ", Shortened(pending.value)));
  }
  used_files_.insert(pending.value);
  PutPending(std::move(pending), target);
}

void MediaFields::PutData(const std::string& field, const std::string& text, const Target& target) {
  absl::StatusOr<DataUrl> url = ParseDataUrl(text);
  if (!url.ok()) return Reject(field, std::string(url.status().message()));
  if (!MayBeUsedAs(url->media_type, target.use, target.clip_or_image)) {
    return Reject(
        field, absl::StrCat("is ", Shortened(url->media_type), "; must be ", Wanted(target.use, target.clip_or_image)));
  }
  PutPending({.field = field, .use = target.use, .source = Source::kData, .value = std::move(url->bytes)}, target);
}

void MediaFields::PutUrl(const std::string& field, const std::string& text, const Target& target) {
  absl::StatusOr<AllowedUrl> allowed = CheckInputUrl(text, rules_.url_hosts);
  if (!allowed.ok()) return Reject(field, std::string(allowed.status().message()));
  PutPending({.field = field, .use = target.use, .source = Source::kUrl, .value = std::move(allowed->url.text)},
             target);
}

void MediaFields::PutPending(PendingInput pending, const Target& target) {
  pending.place = target.place;
  pending.clip_or_image = target.clip_or_image;
  PlaceOf(target, pending.condition);
  out_.inputs.push_back(std::move(pending));
}

v1::MediaRef* MediaFields::PlaceOf(const Target& target, int& condition) {
  v1::Generation* generation = out_.request.mutable_generation();
  if (target.place == Place::kAudio) return generation->mutable_audio()->mutable_media();
  if (target.place == Place::kRetake) return generation->mutable_retake()->mutable_clip();
  condition = generation->conditions_size();
  v1::Condition* added = generation->add_conditions();
  return target.use == InputUse::kClip ? added->mutable_clip() : added->mutable_image();
}

}  // namespace kinora
