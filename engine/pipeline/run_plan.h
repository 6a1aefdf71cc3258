// What a run will do and cost, decided once for each request and read by all that speak of it: estimates, what a client
// is told was resolved, expected seconds, progress, and the run itself. Plain data, equal on every rank but for what is
// said to be this rank's.
#ifndef KINORA_ENGINE_PIPELINE_RUN_PLAN_H_
#define KINORA_ENGINE_PIPELINE_RUN_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/per_modality.h"
#include "engine/diffusion/guidance.h"
#include "engine/diffusion/latents.h"
#include "engine/diffusion/sampler.h"
#include "engine/model/config.h"
#include "engine/pipeline/adapters.h"
#include "engine/pipeline/conditioning.h"
#include "engine/pipeline/tiling.h"
#include "engine/request/given_sound.h"
#include "engine/request/model_description.h"
#include "engine/request/request.h"

namespace kinora {

class VideoDecoder;

enum class StageKind : uint8_t {
  kEncode,
  kEncodeInputs,
  kEncodeSound,
  kDenoise,
  kUpsample,
  kDecodeVideo,
  kDecodeAudio
};

struct ClipShape {
  int32_t width = 0, height = 0, num_frames = 0;
};

// On this rank, from the real model code run on shapes alone; what dry_ops.h counts.
struct StageCost {
  double flops = 0;
  int64_t bytes = 0;     // read and written by its ops
  int64_t launches = 0;  // ops and copies enqueued
};

// A part of a run that a client sees.
struct StagePlan {
  StageKind kind = StageKind::kEncode;
  std::string label{};  // Progress::stage; one of a kind in a run
  int64_t steps = 0;    // that progress counts: evaluations of the sampler, tiles; 0: none
  // What it passes over, on all ranks together: tokens of the prompts; rows of both streams in every pass of every
  // forward pass; latent cells of all tiles; audio latents.
  int64_t tokens = 0;
  LatentGrid grid{};                 // of the video latent that it makes or decodes
  int64_t appended = 0;              // tokens behind the grid's, of guides, of the latent that is denoised next
  std::vector<AppliedLora> loras{};  // that its weights bear: of encoding and denoising

  // Of a denoising stage
  // Of the noise that it begins from, 1; less: what stages before left keeps the rest of 1.
  double noise_scale = 1;
  double frame_rate = 0;  // that the picture is made for
  int64_t time = 1;       // frames of the whole clip for each of its own
  std::vector<GuidePlan> guides{};
  bool undistilled = false;     // noise levels of distilled weights, and the weights are not
  std::vector<float> sigmas{};  // steps + 1, the last 0
  SamplerKind sampler = SamplerKind::kEuler;
  PerModality<GuidanceParams> guidance{};
  PassList passes{};
  StageCost cost{};

  GuidedStage guided_stage() const { return {.grid = grid, .frame_rate = frame_rate, .time = time}; }
};

struct RunPlan {
  GenerationRequest request{};      // as ResolveRequest returns it
  std::vector<StagePlan> stages{};  // in their order
  size_t audio_stage = 0;           // index of the denoising stage whose sound is decoded
  TilePlan tiles{};                 // of the video decoder
  int64_t audio_latents = 0;
  PerModality<bool> denoised{true, true};  // the others are kept as given, or absent
  // Kept whole by a retake: in the latents from the beginning, and decoded.
  PerModality<bool> frozen{};
  HeldSound held_sound{};                // of a retake
  SoundSpan given_sound{};               // of audio-to-video: what is heard of it; else empty
  std::array<int64_t, 2> text_tokens{};  // of the prompt and of the negative prompt

  // On this rank, bytes
  int64_t arena_bytes = 0;       // activations, most at once; what Load must reserve
  int64_t host_arena_bytes = 0;  // in host memory beside them; 0 where that is device memory
  int64_t weight_bytes = 0;      // of the loaded model, as stored; of the rank that holds the most, on every rank
  int64_t workspace_bytes = 0;
  // Weights of the text encoder in pinned host memory, of the rank that holds the most; 0: they are on the device.
  int64_t evicted_bytes = 0;
  int64_t driver_bytes = 0;  // to be left free beside them (BackendTraits)
  int64_t device_bytes() const { return arena_bytes + weight_bytes + workspace_bytes; }
  bool FitsDevice(int64_t bytes) const { return device_bytes() + driver_bytes <= bytes; }

  bool guided() const;                                  // some stage reads the negative prompt
  double flops() const;                                 // of all stages
  const StagePlan* Find(std::string_view label) const;  // null: no such stage
  std::string TextEncoderResidence() const;             // for people: "resident", "evicted, 23.53 GB"
};

// The plan, without the costs, of a request that was resolved for `model`, which describes `config`. InvalidArgument
// naming the side that the decoder cannot pad. decoder: null if nothing of the picture is loaded.
absl::StatusOr<RunPlan> PlanStages(const ModelConfig& config, const ModelDescription& model,
                                   const VideoDecoder* decoder, const GenerationRequest& request,
                                   const std::array<int64_t, 2>& text_tokens);

GuidanceScales ScalesOf(const GuidanceParams& guidance);

}  // namespace kinora

#endif  // KINORA_ENGINE_PIPELINE_RUN_PLAN_H_
