#include "server/tools/media_flags.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "server/common/media_type.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"image", "FILE[@FRAME[:STRENGTH]]",
     "the clip shows this picture, or clip, from FRAME (0) on, as strongly as 0 to 1 (1); may be given again. Files "
     "are "
     "uploaded once"},
    {"audio", "FILE[@START]", "the clip is made for this sound, which it keeps, from START (0) seconds on"},
    {"retake", "FILE:FROM-TO", "the clip is this one, made anew between these seconds"},
};

absl::Status Wrong(absl::string_view flag, const std::string& value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", value, ": ", why));
}

// The first bytes of the file tell its type.
absl::StatusOr<std::string> HeadOf(absl::string_view flag, const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return Wrong(flag, path, "is not a file");
  std::ifstream file(path, std::ios::binary);
  std::string head(kMediaHead, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (!file.is_open() || file.bad())
    return absl::NotFoundError(absl::StrCat("--", flag, " ", path, ": cannot be read: ", std::strerror(errno)));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

absl::StatusOr<std::string> TypeOf(absl::string_view flag, const std::string& path) {
  KINORA_ASSIGN_OR_RETURN(const std::string head, HeadOf(flag, path));
  std::string type(MediaTypeOf(head));
  if (type.empty()) return Wrong(flag, path, absl::StrCat("is of no type that is taken: ", MediaTypeNames()));
  return type;
}

struct ImageFlag {
  std::string path;
  int32_t frame = 0;
  std::optional<double> strength;
};

// What stands behind the last @ is a place only if it reads like one: a file's name may hold an @.
ImageFlag ParseImage(const std::string& value) {
  const size_t at = value.rfind('@');
  if (at == std::string::npos) return {.path = value};
  const std::vector<std::string> parts = absl::StrSplit(value.substr(at + 1), absl::MaxSplits(':', 1));
  ImageFlag image{.path = value.substr(0, at)};
  double strength = 1;
  const bool placed = absl::SimpleAtoi(parts[0], &image.frame) && image.frame >= 0;
  if (!placed || (parts.size() == 2 && !absl::SimpleAtod(parts[1], &strength))) return {.path = value};
  if (parts.size() == 2) image.strength = strength;
  return image;
}

absl::StatusOr<LocalMedia> AddImage(const std::string& value, v1::Generation& generation) {
  const ImageFlag image = ParseImage(value);
  KINORA_ASSIGN_OR_RETURN(const std::string type, TypeOf("image", image.path));
  if (type.rfind("audio/", 0) == 0) return Wrong("image", image.path, absl::StrCat("is ", type, "; --audio takes it"));
  if (image.strength.has_value() && !(*image.strength >= 0 && *image.strength <= 1)) {
    return Wrong("image", value, "the strength must be within 0..1");
  }
  const bool clip = type.rfind("video/", 0) == 0;
  const int index = generation.conditions_size();
  v1::Condition* condition = generation.add_conditions();
  condition->set_frame(image.frame);
  if (image.strength.has_value()) condition->set_strength(*image.strength);
  return LocalMedia{.path = image.path, .ref = [index, clip](v1::Generation& of) {
                      v1::Condition* condition = of.mutable_conditions(index);
                      return clip ? condition->mutable_clip() : condition->mutable_image();
                    }};
}

absl::StatusOr<LocalMedia> AddAudio(const std::string& value, v1::Generation& generation) {
  const size_t at = value.rfind('@');  // as of an image
  double start = 0;
  const bool placed = at != std::string::npos && absl::SimpleAtod(value.substr(at + 1), &start) && start >= 0;
  const std::string path = placed ? value.substr(0, at) : value;
  KINORA_ASSIGN_OR_RETURN(const std::string type, TypeOf("audio", path));
  if (type.rfind("image/", 0) == 0) return Wrong("audio", path, absl::StrCat("is ", type, "; --image takes it"));
  generation.mutable_audio()->set_start_seconds(placed ? start : 0);
  return LocalMedia{.path = path, .ref = [](v1::Generation& of) { return of.mutable_audio()->mutable_media(); }};
}

absl::StatusOr<LocalMedia> AddRetake(const std::string& value, v1::Generation& generation) {
  const size_t colon = value.rfind(':');
  const std::string path = value.substr(0, colon);
  const std::vector<std::string> ends = colon == std::string::npos
                                            ? std::vector<std::string>()
                                            : absl::StrSplit(value.substr(colon + 1), absl::MaxSplits('-', 1));
  double from, to;
  if (ends.size() != 2 || !absl::SimpleAtod(ends[0], &from) || !absl::SimpleAtod(ends[1], &to) ||
      !(from >= 0 && to > from)) {
    return Wrong("retake", value, "FILE:FROM-TO in seconds is needed, as clip.mp4:1.5-3");
  }
  KINORA_ASSIGN_OR_RETURN(const std::string type, TypeOf("retake", path));
  if (type.rfind("video/", 0) != 0) return Wrong("retake", path, absl::StrCat("is ", type, ", not a clip"));
  generation.mutable_retake()->set_start_seconds(from);
  generation.mutable_retake()->set_end_seconds(to);
  return LocalMedia{.path = path, .ref = [](v1::Generation& of) { return of.mutable_retake()->mutable_clip(); }};
}

}  // namespace

absl::Span<const FlagSpec> MediaFlags() { return kFlags; }

absl::StatusOr<std::vector<LocalMedia>> AddMedia(const CommandLine& line, v1::Generation& generation) {
  std::vector<LocalMedia> media;
  for (const std::string& value : line.GetAll("image")) {
    KINORA_ASSIGN_OR_RETURN(media.emplace_back(), AddImage(value, generation));
  }
  if (const auto path = line.Get("audio")) {
    KINORA_ASSIGN_OR_RETURN(media.emplace_back(), AddAudio(*path, generation));
  }
  if (const auto value = line.Get("retake")) {
    KINORA_ASSIGN_OR_RETURN(media.emplace_back(), AddRetake(*value, generation));
  }
  return media;
}

}  // namespace kinora
