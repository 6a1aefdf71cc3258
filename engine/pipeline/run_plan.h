// The plan and the cost of a run, decided once per request. Estimates, the resolved request shown to clients, expected
// times, progress and the run itself all read it. Plain data, equal on every rank except where marked as this rank's.
#ifndef KINORA_ENGINE_PIPELINE_RUN_PLAN_H_
#define KINORA_ENGINE_PIPELINE_RUN_PLAN_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/per_modality.h"
#include "engine/config/model_config.h"
#include "engine/diffusion/guidance.h"
#include "engine/diffusion/latents.h"
#include "engine/diffusion/sampler.h"
#include "engine/pipeline/adapters.h"
#include "engine/pipeline/conditioning.h"
#include "engine/pipeline/tiling.h"
#include "engine/request/given_sound.h"
#include "engine/request/model_description.h"
#include "engine/request/request.h"
#include "engine/request/stage.h"

namespace kinora {

class FrameDecoder;

struct ClipShape {
  int32_t width = 0, height = 0, num_frames = 0;
};

// Cost of a stage on this rank, as counted by dry_ops.h while the real model code runs on shapes alone.
struct StageCost {
  double flops = 0;
  int64_t bytes = 0;     // read and written by its ops
  int64_t launches = 0;  // ops and copies enqueued
};

// A tensor that a resume point of a denoising stage holds: [tokens, channels] f32.
struct CarriedShape {
  std::string name;
  Shape shape;
};

// A part of a run that a client sees.
struct StagePlan {
  StageKind kind = StageKind::kEncode;
  int32_t part = 0;   // Stage::part
  int64_t steps = 0;  // counted by progress: evaluations of the sampler, or tiles; 0: no progress
  // Units of work, summed over all ranks: prompt tokens; rows of both modalities in every pass of every forward pass;
  // latent cells of all tiles; audio latents.
  int64_t tokens = 0;
  LatentGrid grid{};                 // of the video latent that the stage makes or decodes
  int64_t appended = 0;              // guide tokens behind the grid's; of an upsampling stage: in the stage after it
  std::vector<AppliedLora> loras{};  // in its weights; of encoding and denoising stages

  // The rest belongs to denoising stages.
  // Share of noise in the initial latent. Below 1, the result of the earlier stages makes up the rest.
  double noise_scale = 1;
  double frame_rate = 0;  // of the video in this stage
  int64_t time = 1;       // frames of the whole clip per frame of this stage
  std::vector<GuidePlan> guides{};
  bool undistilled = false;     // uses the noise levels of distilled weights with weights that are not distilled
  std::vector<float> sigmas{};  // the last is 0
  SamplerKind sampler = SamplerKind::kEuler;
  PerModality<GuidanceParams> guidance{};
  PassList passes{};
  std::vector<CarriedShape> carried{};  // by a resume point between two steps (resume_point.h)
  StageCost cost{};

  Stage stage() const { return {kind, part}; }
  GuidedStage guided_stage() const { return {.grid = grid, .frame_rate = frame_rate, .time = time}; }
};

class OneTimeWork;

struct RunPlan {
  GenerationRequest request{};  // as ResolveRequest returns it, with its number of frames
  // The model is still to choose the number of frames (Pipeline::ChooseFrames); this plan assumes the longest clip.
  std::optional<LengthLimits> open_length{};
  std::vector<StagePlan> stages{};  // in order of execution
  size_t audio_stage = 0;           // index of the denoising stage whose sound is decoded
  TilePlan tiles{};                 // of the video decoder
  bool untiled_decode = false;      // `tiles` is one tile where the default tiling has more
  int64_t audio_latents = 0;
  PerModality<bool> denoised{true, true};  // a modality that is not denoised is given by the request or absent
  // Kept whole by a retake: encoded into the initial latent, never changed, and decoded.
  PerModality<bool> frozen{};
  HeldSound held_sound{};                // of a retake
  SoundSpan given_sound{};               // audio-to-video: the part of the given sound that the clip uses; else empty
  std::array<int64_t, 2> text_tokens{};  // of the prompt and of the negative prompt

  // Bytes on this rank
  int64_t arena_bytes = 0;       // peak of activations; Load must reserve as much
  int64_t host_arena_bytes = 0;  // of host memory for copies and noise; 0 if device memory is host memory
  int64_t weight_bytes = 0;      // of the loaded model, as stored, on the rank that holds the most
  int64_t workspace_bytes = 0;
  // Weights of the text encoder in pinned host memory, on the rank that holds the most. 0: they are on the device.
  int64_t evicted_bytes = 0;
  int64_t driver_bytes = 0;  // to leave free for the driver (BackendTraits)
  int64_t device_bytes() const { return arena_bytes + weight_bytes + workspace_bytes; }
  bool FitsDevice(int64_t bytes) const { return device_bytes() + driver_bytes <= bytes; }

  // What the ops need to have done once for these shapes (Pipeline::DoAhead); null: nothing is known.
  std::shared_ptr<const OneTimeWork> one_time_work{};

  bool guided() const;                                  // some stage reads the negative prompt
  double flops() const;                                 // of all stages
  const StagePlan* Find(std::string_view stage) const;  // by its name; null if there is no such stage
  std::string TextEncoderResidence() const;             // for display: "resident", "evicted, 23.53 GB"
};

// For an error about the memory of a plan with untiled_decode.
inline constexpr std::string_view kUntiledNeedsMore = "decoding without tiles (--untiled-decode) needs more than tiles";

// The video decoder that a plan is for.
struct PlannedDecoder {
  const FrameDecoder* decoder = nullptr;  // null: the video modules are not loaded
  bool untiled = false;                   // whole clips are decoded at once
};

// Returns the plan, without the costs, of a request that was resolved for `model`. model: describes `config`. Fails
// with InvalidArgument, naming the side, if the decoder cannot pad it.
absl::StatusOr<RunPlan> PlanStages(const ModelConfig& config, const ModelDescription& model,
                                   const PlannedDecoder& decoder, const GenerationRequest& request,
                                   const std::array<int64_t, 2>& text_tokens);

GuidanceScales ScalesOf(const GuidanceParams& guidance);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_RUN_PLAN_H_
