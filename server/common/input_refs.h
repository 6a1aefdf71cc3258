// Where a request names inputs (UploadInput's), what each is used as, and where the frontend keeps it.
#ifndef KINORA_SERVER_COMMON_INPUT_REFS_H_
#define KINORA_SERVER_COMMON_INPUT_REFS_H_

#include <string>
#include <string_view>
#include <vector>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

enum class InputUse { kImage, kClip, kSound };

struct InputRef {
  std::string field;  // "conditions[2].image.input_id"
  std::string id;
  InputUse use = InputUse::kImage;
};

// In the order of the fields; an id as often as it is named. References that are empty are left out.
std::vector<InputRef> InputRefsOf(const v1::Generation& generation);

// Whether a file of this type has what it is to be used as: a clip's sound is a sound as well.
bool CanBeUsedAs(InputUse use, std::string_view media_type);
std::string InputUseName(InputUse use);  // "an image (image/png, image/jpeg or image/webp)"

// Under the artifact directory: "inputs/ID".
inline constexpr char kInputsFolder[] = "inputs";
std::string InputKey(std::string_view id);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_INPUT_REFS_H_
