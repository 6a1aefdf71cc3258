#include "engine/request/model_description.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/request/upscaling.h"

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

std::string UntrainedShapeWarning(const ModelDescription& model, const GenerationRequest& request) {
  if (model.trained_shapes.empty()) return "";
  const auto asked = [&request](const TrainedShape& shape) {
    const bool size = request.audio_only || (shape.width == request.width && shape.height == request.height);
    return size && shape.num_frames == request.num_frames;
  };
  if (std::any_of(model.trained_shapes.begin(), model.trained_shapes.end(), asked)) return "";
  const auto text = [](std::string* out, const TrainedShape& shape) {
    absl::StrAppend(out, shape.width, "x", shape.height, " with ", shape.num_frames, " frames");
  };
  return absl::StrCat("the model was trained on clips of ", absl::StrJoin(model.trained_shapes, ", ", text),
                      "; clips of other sizes or lengths may not follow the prompt");
}

int64_t ModelDescription::ScheduleTokens(const GenerationRequest& request) const {
  if (request.schedule_tokens > 0) return request.schedule_tokens;
  if (request.schedule_tokens == 0 && request.recipe != Recipe::kHq) return schedule.max_tokens;
  ClipSize size{request.num_frames, request.height, request.width};
  if (const Upscaling* upscaling = FindUpscaling(request.upsampler)) size = upscaling->Before(size);
  return VideoTokens(size.num_frames, size.height, size.width);
}

}  // namespace kinora
