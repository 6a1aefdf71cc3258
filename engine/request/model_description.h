// Describes a model to code that decides on requests without loading it: recipes, limits, defaults. The pipeline makes
// it from the model's configuration (engine/pipeline/modules.h); ModelInfo is its wire format.
#ifndef KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_
#define KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request/request.h"
#include "engine/request/schedule.h"

namespace kinora {

// CRF of the H.264 pass of an image, up to LTX-2.3 (ltx_pipelines/utils/args.py).
inline constexpr int32_t kImageCrf = 33;

// Optional parts of a model.
struct ModelParts {
  bool video_encoder = false;   // images and clips as inputs
  bool upsampler = false;       // at least one kind, between two stages
  bool distilled_lora = false;  // few steps on a dev model
  bool audio_encoder = false;   // sound as an input
  bool duration_head = false;   // chooses the length of a clip
  bool operator==(const ModelParts&) const = default;
};

// One recipe of a model, for one upsampler if it has two stages: its limits and its defaults.
struct RecipeDescription {
  Recipe recipe = Recipe::kUnspecified;
  std::string upsampler;                                  // a name for FindUpscaling; "": one stage
  int32_t size_multiple = 0;                              // of width and height, pixels
  int32_t frame_multiple = 0;                             // num_frames is a multiple of it, plus 1
  int32_t min_size = 0;                                   // of width and height; 0: size_multiple
  int32_t max_width = 0, max_height = 0, max_frames = 0;  // 0: no limit
  // Limit on video latent tokens (VideoTokens), those that fit the reserved memory; 0: no limit. A run also checks its
  // own plan.
  int64_t max_tokens = 0;
  bool guided = false;               // accepts guidance and a negative prompt
  std::vector<double> fixed_sigmas;  // noise levels of the first stage, the last 0; empty: a schedule with any steps
  ModelParts needs;
  // Sets width, height, num_frames, frame_rate, num_inference_steps; in a guided recipe also the guidance of both
  // modalities, with STG blocks whether or not STG is on, and the negative prompt.
  GenerationRequest defaults;
  bool operator==(const RecipeDescription&) const = default;
};

// A size, in pixels, and length, in frames, of clips that a model was trained on.
struct TrainedShape {
  int32_t width = 0, height = 0, num_frames = 0;
  bool operator==(const TrainedShape&) const = default;
};

struct ModelDescription {
  std::string family;  // "ltx-2.0", "ltx-2.3", "ltx-2.5"
  std::string kind;    // "dev" or "distilled"; empty if neither the files nor the caller specify it
  Recipe default_recipe = Recipe::kUnspecified;  // for requests without a recipe
  std::vector<RecipeDescription> recipes;        // those that this build can run
  int32_t blocks = 0;                            // transformer blocks: the bound of STG blocks
  int32_t pixels_per_token = 0;                  // along each side
  int32_t frames_per_token = 0;                  // after the first frame, which has a token of its own
  bool makes_video = false, makes_audio = false;
  ModelParts parts;
  std::vector<std::string> loras;  // ids, sorted
  DevSchedule schedule;
  int32_t image_crf = kImageCrf;               // default of ConditionInput::crf
  std::vector<TrainedShape> trained_shapes{};  // empty: the files do not list any
  bool operator==(const ModelDescription&) const = default;

  // Returns null if the recipe is not described. upsampler "": the recipe's first description.
  const RecipeDescription* Find(Recipe recipe, const std::string& upsampler) const;
  // Returns the number of video latent tokens, ((num_frames − 1)/frames_per_token + 1) · (height/pixels_per_token)
  // · (width/pixels_per_token), or the largest int64 if that overflows. num_frames, height, width > 0.
  int64_t VideoTokens(int64_t num_frames, int64_t height, int64_t width) const;
  // Returns the number of tokens that the dev schedule of a request's first stage shifts for
  // (GenerationRequest::schedule_tokens). The request's sizes and upsampler must be set.
  int64_t ScheduleTokens(const GenerationRequest& request) const;
};

// Returns a warning if the model was not trained on clips of the request's size and length; "" if it was or the files
// do not list any. request: resolved; for audio_only, only the length counts.
std::string UntrainedShapeWarning(const ModelDescription& model, const GenerationRequest& request);

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_MODEL_DESCRIPTION_H_
