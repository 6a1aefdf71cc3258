// One generation request: the proto's `Generation` as plain C++. No file access, no protobuf, no Tensor: the frontend
// includes this header without linking the engine, so a request owns the memory of its data. All ranks of a group get
// equal requests.
//
// "Absent" (nullopt, 0, empty) always means the model's or the recipe's default. request_rules.h defines the valid
// values and the defaults.
#ifndef KINORA_ENGINE_REQUEST_REQUEST_H_
#define KINORA_ENGINE_REQUEST_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request/auto_length.h"
#include "engine/request/given_noise.h"
#include "engine/request/stage.h"

namespace kinora {

enum class Recipe { kUnspecified, kOneStage, kTwoStage, kDistilled, kDistilledTwoStage, kHq };  // the proto's numbers

constexpr std::string_view RecipeName(Recipe recipe) {  // the proto's name, for messages, labels and JSON
  constexpr std::string_view kNames[] = {"RECIPE_UNSPECIFIED", "ONE_STAGE",           "TWO_STAGE",
                                         "DISTILLED",          "DISTILLED_TWO_STAGE", "HQ"};
  return kNames[static_cast<int>(recipe)];
}

// Guidance terms of one modality (docs/model.md "Guidance"). The defaults are "every term off".
struct GuidanceParams {
  double cfg_scale = 1;             // 1: off
  double stg_scale = 0;             // 0: off
  std::vector<int32_t> stg_blocks;  // transformer blocks perturbed; empty: the model's default blocks
  double modality_scale = 1;        // 1: off
  double rescale = 0;               // 0: off, 0..1
  int32_t skip_step = 0;            // k: compute guidance on steps with step % (k + 1) == 0, reuse x0 on others

  bool NeedsUncond() const { return cfg_scale != 1; }
  bool NeedsPerturbed() const { return stg_scale != 0; }
  bool NeedsModality() const { return modality_scale != 1; }
  bool operator==(const GuidanceParams&) const = default;
};

struct PixelClip {  // sRGB after EXIF, ICC and CRF; [frames, height, width, 3]
  int64_t frames = 0, height = 0, width = 0;
  std::vector<uint8_t> rgb;
  double frame_rate = 0;  // of its file, frames per second; 0: unknown
};

struct AudioClip {  // [channels, samples], -1..1
  int64_t channels = 0, samples = 0;
  int32_t sample_rate = 0;  // Hz
  std::vector<float> waveform;
};

// `input_id` names an input: an upload's id, or a file's path for kinora-render. The process that runs the request
// reads it.
struct ConditionInput {  // an image (one frame) or a clip, shown from `frame` on
  enum class Media { kNone, kImage, kClip };
  Media media = Media::kNone;
  std::string input_id;
  std::shared_ptr<const PixelClip> pixels;  // null until read
  int32_t frame = 0;                        // pixel frame, 0-based
  double strength = 1;                      // 0..1
  bool append = false;         // frame 0 only: guide by appended tokens instead of replacing latent frame 0
  std::optional<int32_t> crf;  // of the H.264 pass before encoding; 0: no pass; absent: the model's default
  bool operator==(const ConditionInput&) const = default;
};

struct LoraInput {
  std::string id;  // as in ModelFiles' lora=ID:FILE
  double strength = 1;
  std::optional<double> strength_stage2;  // absent: `strength`
  std::string digest{};                   // "sha256:HEX" rejects another file under this id; empty: accepts any
  bool operator==(const LoraInput&) const = default;
};

struct RetakeInput {  // regenerates [start, end) of the clip
  std::string input_id;
  std::shared_ptr<const PixelClip> clip;   // null until read
  std::shared_ptr<const AudioClip> audio;  // null: not read, or the clip has no sound
  double start_seconds = 0, end_seconds = 0;
  bool keep_video = false, keep_audio = false;
  bool operator==(const RetakeInput&) const = default;
};

struct AudioGuide {  // audio-to-video: this sound is kept
  std::string input_id;
  std::shared_ptr<const AudioClip> audio;  // null until read
  double start_seconds = 0;
  bool operator==(const AudioGuide&) const = default;
};

struct GenerationRequest {
  std::string prompt;                          // UTF-8
  std::optional<std::string> negative_prompt;  // absent: the model's default where guidance uses one; "": empty
  int32_t width = 0, height = 0;               // pixels
  int32_t num_frames = 0;                      // 8k + 1; 0 in an effective request: FramesAreUnknown
  double frame_rate = 0;                       // frames per second
  uint64_t seed = 0;                           // always explicit: drawn and reported by the builder of the request
  Recipe recipe = Recipe::kUnspecified;
  int32_t num_inference_steps = 0;
  std::vector<double> sigmas;  // first stage; descending, last 0; empty: the recipe's schedule
  std::optional<GuidanceParams> video_guidance, audio_guidance;  // absent: the recipe's defaults
  std::vector<ConditionInput> conditions;
  std::vector<LoraInput> loras;
  int32_t schedule_tokens = 0;  // tokens the dev schedule shifts for; 0: 4096 (HQ: stage 1's); -1: the actual number
  std::optional<RetakeInput> retake;
  std::optional<AudioGuide> audio;
  bool audio_only = false;                // text-to-audio
  std::optional<AutoLength> auto_length;  // the model chooses num_frames; absent: it does not
  std::string upsampler;  // "x2", "x1.5", "temporal_x2"; empty: the recipe's first, none in a recipe of one stage
  GivenNoise noise;
  bool operator==(const GenerationRequest&) const = default;
};

// Whether a request, defaults filled in, gets its number of frames only in its run: from the model, or from a sound
// that is not read yet.
inline bool FramesAreUnknown(const GenerationRequest& request) {
  const bool unread = request.audio.has_value() && request.audio->audio == nullptr;
  return request.num_frames == 0 && (request.auto_length.has_value() || unread);
}

// Returns the request with the number of frames that the model has chosen.
inline GenerationRequest WithFrames(GenerationRequest request, int32_t num_frames) {
  request.num_frames = num_frames;
  request.auto_length.reset();
  return request;
}

// The fields of the proto's `Output` that matter to more than the writing of the artifacts.
struct OutputRequest {
  std::optional<int32_t> crf;       // quality of the video encoder; absent: 19
  int32_t preview_every_steps = 0;  // 0: no previews
};

// Reported on rank 0 at the start of each stage (step 0) and after each step.
struct Progress {
  Stage stage;
  int32_t step = 0;         // steps done in this stage
  int32_t total_steps = 0;  // steps of this stage; 0: not counted
};

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_REQUEST_H_
