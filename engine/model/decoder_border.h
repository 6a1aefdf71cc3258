// What the windows of the diffusion decoder's denoiser read beyond the left and right border of a picture or tile.
#ifndef KINORA_ENGINE_MODEL_DECODER_BORDER_H_
#define KINORA_ENGINE_MODEL_DECODER_BORDER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/strings.h"

namespace kinora {

enum class DecoderBorder : uint8_t {
  kShift,   // the window moves inward (ltx_core's "combined" form, diffusers)
  kRepeat,  // the border's column again, at positions beyond the border (ltx_core's "chunked" forms, its default)
};

inline constexpr std::string_view kDecoderBorders[] = {"shift", "repeat"};  // the values' names, in their order

inline std::string_view NameOf(DecoderBorder border) { return kDecoderBorders[static_cast<int>(border)]; }

// Returns the border of this name; kShift for "". Fails with InvalidArgument naming the field.
inline absl::StatusOr<DecoderBorder> ParseDecoderBorder(std::string_view field, std::string_view name) {
  if (name.empty() || name == NameOf(DecoderBorder::kShift)) return DecoderBorder::kShift;
  if (name == NameOf(DecoderBorder::kRepeat)) return DecoderBorder::kRepeat;
  return absl::InvalidArgumentError(Cat(field, ": \"", name, "\" is not shift or repeat"));
}

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_DECODER_BORDER_H_
