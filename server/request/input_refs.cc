#include "server/request/input_refs.h"

#include "absl/strings/str_cat.h"

namespace kinora {

std::vector<InputRef> InputRefsOf(const v1::Generation& generation) {
  std::vector<InputRef> refs;
  const auto add = [&refs](std::string field, const v1::MediaRef& media, InputUse use) {
    if (!media.input_id().empty()) refs.push_back({.field = std::move(field), .id = media.input_id(), .use = use});
  };
  for (int i = 0; i < generation.conditions_size(); ++i) {
    const v1::Condition& condition = generation.conditions(i);
    add(absl::StrCat("conditions[", i, "].image.input_id"), condition.image(), InputUse::kImage);
    add(absl::StrCat("conditions[", i, "].clip.input_id"), condition.clip(), InputUse::kClip);
  }
  add("retake.clip.input_id", generation.retake().clip(), InputUse::kClip);
  add("audio.media.input_id", generation.audio().media(), InputUse::kSound);
  return refs;
}

bool CanBeUsedAs(InputUse use, std::string_view media_type) {
  switch (use) {
    case InputUse::kImage:
      return media_type.starts_with("image/");
    case InputUse::kClip:
      return media_type.starts_with("video/");
    case InputUse::kSound:
      return media_type.starts_with("audio/") || media_type.starts_with("video/");
  }
  return false;
}

std::string InputUseName(InputUse use) {
  switch (use) {
    case InputUse::kImage:
      return "an image (image/png, image/jpeg or image/webp)";
    case InputUse::kClip:
      return "a clip (video/mp4 or video/webm)";
    case InputUse::kSound:
      return "a sound (audio/wav, audio/flac, audio/mpeg, audio/aac, audio/mp4, or a clip's)";
  }
  return "";
}

std::string InputKey(std::string_view id) { return absl::StrCat(kInputsFolder, "/", std::string(id)); }

}  // namespace kinora
