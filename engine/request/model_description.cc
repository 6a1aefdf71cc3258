#include "engine/request/model_description.h"

#include <algorithm>
#include <limits>

namespace kinora {

const RecipeDescription* ModelDescription::Find(Recipe recipe, const std::string& upsampler) const {
  for (const RecipeDescription& described : recipes) {
    if (described.recipe == recipe && (upsampler.empty() || described.upsampler == upsampler)) return &described;
  }
  return nullptr;
}

int64_t ModelDescription::VideoTokens(int64_t num_frames, int64_t height, int64_t width) const {
  const int64_t pixels = std::max(1, pixels_per_token), frames = std::max(1, frames_per_token);
  int64_t tokens = (num_frames - 1) / frames + 1;
  if (__builtin_mul_overflow(tokens, height / pixels, &tokens) ||
      __builtin_mul_overflow(tokens, width / pixels, &tokens)) {
    return std::numeric_limits<int64_t>::max();
  }
  return tokens;
}

}  // namespace kinora
