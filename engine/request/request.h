// One generation request: the proto's `Generation` as plain C++. No file, no protobuf, no Tensor: the frontend includes
// this header and links no engine, so the data a request carries owns its memory. All ranks of a group are given equal
// requests.
//
// "Absent" (nullopt, 0, empty) always means the model's or the recipe's default. What the fields may hold, and what
// stands for an absent one, is decided in request_rules.h.
#ifndef KINORA_ENGINE_REQUEST_REQUEST_H_
#define KINORA_ENGINE_REQUEST_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinora {

enum class Recipe { kUnspecified, kOneStage, kTwoStage, kDistilled, kDistilledTwoStage, kHq };  // numbers of the proto

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
  int32_t skip_step = 0;            // k: guide anew on steps with step % (k + 1) == 0, reuse x0 on the others

  bool NeedsUncond() const { return cfg_scale != 1; }
  bool NeedsPerturbed() const { return stg_scale != 0; }
  bool NeedsModality() const { return modality_scale != 1; }
  bool operator==(const GuidanceParams&) const = default;
};

struct PixelClip {  // sRGB after EXIF, ICC and CRF; [frames, height, width, 3]
  int64_t frames = 0, height = 0, width = 0;
  std::vector<uint8_t> rgb;
  double frame_rate = 0;  // of its file, frames per second; 0: not known
};

struct AudioClip {  // [channels, samples], -1..1
  int64_t channels = 0, samples = 0;
  int32_t sample_rate = 0;  // Hz
  std::vector<float> waveform;
};

struct HostArray {  // float32, row-major
  std::vector<int64_t> shape;
  std::vector<float> values;
  bool operator==(const HostArray&) const = default;
};

// Inputs are named by `input_id`, an upload's id or a file's path for kinora-render; whoever runs the request reads
// them.
struct ConditionInput {  // an image (one frame) or a clip that the video shows from `frame` on
  enum class Media { kNone, kImage, kClip };
  Media media = Media::kNone;
  std::string input_id;
  std::shared_ptr<const PixelClip> pixels;  // null until read
  int32_t frame = 0;                        // pixel frame, 0-based
  double strength = 1;                      // 0..1
  bool append = false;         // frame 0 only: guide by appended tokens instead of replacing latent frame 0
  std::optional<int32_t> crf;  // of the H.264 pass before encoding; 0: none; absent: the model's default
  bool operator==(const ConditionInput&) const = default;
};

struct LoraInput {
  std::string id;  // as in ModelFiles' lora=ID:FILE
  double strength = 1;
  std::optional<double> strength_stage2;  // absent: `strength`
  std::string digest{};                   // "sha256:HEX": another file under the id is refused; empty: any will do
  bool operator==(const LoraInput&) const = default;
};

struct RetakeInput {  // new material in [start, end) of the clip
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

// Initial noise given instead of drawn (`kinora-render --noise`): standard normal, float32. C is the video latent's
// channels, F', H', W' its frames, height, width, T' the audio latent's frames.
struct GivenNoise {
  std::optional<HostArray> video;  // [1, C, F', H', W']
  std::optional<HostArray> audio;  // [1, 8, T', 16]
  bool operator==(const GivenNoise&) const = default;
};

struct GenerationRequest {
  std::string prompt;                          // UTF-8
  std::optional<std::string> negative_prompt;  // absent: the model's default where guidance uses one; "": empty
  int32_t width = 0, height = 0;               // pixels
  int32_t num_frames = 0;                      // 8k + 1; 0 in an effective request: `audio`, once read, decides
  double frame_rate = 0;                       // frames per second
  uint64_t seed = 0;                           // always explicit: whoever builds the request draws and reports it
  Recipe recipe = Recipe::kUnspecified;
  int32_t num_inference_steps = 0;
  std::vector<double> sigmas;  // first stage; descending, last 0; empty: the recipe's schedule
  std::optional<GuidanceParams> video_guidance, audio_guidance;  // absent: the recipe's defaults
  std::vector<ConditionInput> conditions;
  std::vector<LoraInput> loras;
  int32_t schedule_tokens = 0;  // tokens the dev schedule shifts for; 0: 4096 (HQ: stage 1's); -1: the actual number
  std::optional<RetakeInput> retake;
  std::optional<AudioGuide> audio;
  bool audio_only = false;  // text-to-audio
  std::string upsampler;    // "x2", "x1.5", "temporal_x2"; empty: the recipe's first, none in a recipe of one stage
  GivenNoise noise;
  bool operator==(const GenerationRequest&) const = default;
};

// What a request asks of its artifacts, as far as anything but writing them depends on it: the proto's `Output`.
struct OutputRequest {
  std::optional<int32_t> crf;       // quality of the video encoder; absent: 19
  int32_t preview_every_steps = 0;  // 0: no previews
};

// Reported on rank 0 at the start of each stage (step 0) and after each step. Stages, in order: "encode"; of a given
// sound "encode_audio"; of a request that shows something "encode_inputs"; "denoise", or of two stages "denoise_1",
// "upsample", "denoise_2"; "decode_video", "decode_audio". Before one that other LoRAs go on for, "put_on_loras".
struct Progress {
  std::string stage;
  int32_t step = 0;              // steps done in this stage
  int32_t total_steps = 0;       // steps of this stage; 0: not counted
  double fraction = 0;           // of the whole request, 0..1, never falls
  double remaining_seconds = 0;  // < 0: not known yet
};

}  // namespace kinora

#endif  // KINORA_ENGINE_REQUEST_REQUEST_H_
