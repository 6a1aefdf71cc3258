// What others must know of a model to decide on a request without it: its recipes, their limits and defaults. Made by
// the pipeline from the model's configuration (engine/pipeline/modules.h); ModelInfo is the same on the wire.
#ifndef KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_
#define KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request/request.h"
#include "engine/request/schedule.h"

namespace kinora {

// Parts that not every model is loaded with.
struct ModelParts {
  bool video_encoder = false;   // images and clips as inputs
  bool upsampler = false;       // of one kind at least, between two stages
  bool distilled_lora = false;  // few steps on a dev model
  bool audio_encoder = false;   // sound as an input
  bool operator==(const ModelParts&) const = default;
};

// One recipe of a model, with one upsampler if it has two stages: what may be asked of it, and what it sets where a
// request says nothing.
struct RecipeDescription {
  Recipe recipe = Recipe::kUnspecified;
  std::string upsampler;                                  // FindUpscaling knows it; "": of one stage
  int32_t size_multiple = 0;                              // of width and height, pixels
  int32_t frame_multiple = 0;                             // frames: a multiple of it, plus 1
  int32_t min_size = 0;                                   // of width and height; 0: size_multiple
  int32_t max_width = 0, max_height = 0, max_frames = 0;  // 0: no limit
  // Of the video latent (VideoTokens): what fits the reserved memory; 0: no limit. A run checks its own plan besides.
  int64_t max_tokens = 0;
  bool guided = false;               // takes guidance and a negative prompt
  std::vector<double> fixed_sigmas;  // noise levels of the first stage, the last 0; empty: a schedule with any steps
  ModelParts needs;
  // width, height, num_frames, frame_rate, num_inference_steps; of a guided recipe also the guidance of both
  // modalities, with STG blocks whether or not STG is on, and the negative prompt.
  GenerationRequest defaults;
  bool operator==(const RecipeDescription&) const = default;
};

// A size and length of the clips that a model was trained on, pixels and frames.
struct TrainedShape {
  int32_t width = 0, height = 0, num_frames = 0;
  bool operator==(const TrainedShape&) const = default;
};

struct ModelDescription {
  std::string family;                            // "ltx-2.0", "ltx-2.3"
  std::string kind;                              // "dev", "distilled" or empty if neither the files nor the caller say
  Recipe default_recipe = Recipe::kUnspecified;  // of a request that names none
  std::vector<RecipeDescription> recipes;        // that this build can run
  int32_t blocks = 0;                            // of the transformer: STG blocks lie below it
  int32_t pixels_per_token = 0;                  // of each side
  int32_t frames_per_token = 0;                  // after the first frame, which is a token of its own
  bool makes_video = false, makes_audio = false;
  ModelParts parts;
  std::vector<std::string> loras;  // ids, sorted
  DevSchedule schedule;
  std::vector<TrainedShape> trained_shapes{};  // of the clips that it was trained on; empty: the files do not say
  bool operator==(const ModelDescription&) const = default;

  // Null: not described. upsampler "": the recipe's first description.
  const RecipeDescription* Find(Recipe recipe, const std::string& upsampler) const;
  // Tokens of the video latent: (frames − 1)/frames_per_token + 1 by height/pixels_per_token by width/pixels_per_token.
  // The largest int64 where that is exceeded. width, height, num_frames > 0.
  int64_t VideoTokens(int64_t num_frames, int64_t height, int64_t width) const;
  // For how many tokens the dev schedule of a request's first stage shifts (GenerationRequest::schedule_tokens). Sizes
  // and upsampler must be set.
  int64_t ScheduleTokens(const GenerationRequest& request) const;
};

// What to tell who asks for a clip of a size or length that the model has never seen: "" if it has, or is silent.
// `request`: as resolved; of one of sound alone the length counts.
std::string UntrainedShapeWarning(const ModelDescription& model, const GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_
