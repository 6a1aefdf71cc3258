#include "server/request/media_flags.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "server/request/media_type.h"

namespace kinora {
namespace {

constexpr FlagSpec kFlags[] = {
    {"image", "FILE[@FRAME[:STRENGTH]]",
     "show this image or clip from frame FRAME on (default: 0), with STRENGTH 0 to 1 (default: 1); repeatable. Each "
     "file is uploaded once"},
    {"audio", "FILE[@START]",
     "generate the picture for this sound, and keep the sound; START: where to begin in it, in seconds (default: 0)"},
    {"retake", "FILE:FROM-TO", "regenerate FILE from FROM to TO seconds and keep the rest"},
};

absl::Status Wrong(absl::string_view flag, const std::string& value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", value, ": ", why));
}

// Returns the first bytes of the file, which tell its type.
absl::StatusOr<std::string> HeadOf(absl::string_view flag, const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return Wrong(flag, path, "is not a regular file");
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
  if (type.empty()) return Wrong(flag, path, absl::StrCat("is not of a supported type: ", MediaTypeNames()));
  return type;
}

struct ImageFlag {
  std::string path;
  int32_t frame = 0;
  std::optional<double> strength;
};

// Text after the last @ is a position only if it parses as one, because the name of a file may contain an @.
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
  if (type.rfind("audio/", 0) == 0) return Wrong("image", image.path, absl::StrCat("is ", type, "; use --audio"));
  if (image.strength.has_value() && !(*image.strength >= 0 && *image.strength <= 1)) {
    return Wrong("image", value, "the strength must be 0 to 1");
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
  const size_t at = value.rfind('@');  // as in ParseImage
  double start = 0;
  const bool placed = at != std::string::npos && absl::SimpleAtod(value.substr(at + 1), &start) && start >= 0;
  const std::string path = placed ? value.substr(0, at) : value;
  KINORA_ASSIGN_OR_RETURN(const std::string type, TypeOf("audio", path));
  if (type.rfind("image/", 0) == 0) return Wrong("audio", path, absl::StrCat("is ", type, "; use --image"));
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
    return Wrong("retake", value, "must be FILE:FROM-TO in seconds, such as clip.mp4:1.5-3");
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
