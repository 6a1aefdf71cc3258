// The inputs (UploadInput) that a request refers to, how each is used, and where the frontend keeps it.
#ifndef KINORA_SERVER_REQUEST_INPUT_REFS_H_
#define KINORA_SERVER_REQUEST_INPUT_REFS_H_

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

// Returns the references in the order of their fields; an id appears once per reference. Omits empty references.
std::vector<InputRef> InputRefsOf(const v1::Generation& generation);

// Whether a file of this type can be used for `use`. A clip can also be used as a sound.
bool CanBeUsedAs(InputUse use, std::string_view media_type);
std::string InputUseName(InputUse use);  // "an image (image/png, image/jpeg or image/webp)"

// The frontend stores inputs in the artifact directory as "inputs/ID".
inline constexpr char kInputsFolder[] = "inputs";
std::string InputKey(std::string_view id);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_INPUT_REFS_H_
