#include "engine/pipeline/run_plan.h"

#include <algorithm>
#include <cmath>

#include "engine/base/status_macros.h"
#include "engine/diffusion/schedule.h"
#include "engine/pipeline/modules.h"
#include "engine/pipeline/video_decode_stage.h"

namespace kinora {
namespace {

// The final 0 last. grid_tokens: of the video latent.
std::vector<float> NoiseLevels(const SchedulerConfig& s, const GenerationRequest& request, int64_t grid_tokens) {
  if (!request.sigmas.empty()) return {request.sigmas.begin(), request.sigmas.end()};
  if (request.recipe == Recipe::kDistilled) return DistilledSigmas();
  const int64_t tokens = request.schedule_tokens > 0   ? request.schedule_tokens
                         : request.schedule_tokens < 0 ? grid_tokens
                                                       : s.max_tokens;
  return DevSigmas({.base_shift = s.base_shift,
                    .max_shift = s.max_shift,
                    .base_tokens = s.base_tokens,
                    .max_tokens = s.max_tokens,
                    .terminal = s.terminal.value_or(0.1)},
                   request.num_inference_steps, tokens);
}

// So many tokens shift every level to 1 (and a shift of the model's own beyond float32 does the same).
absl::Status CheckNoiseLevels(const std::vector<float>& sigmas) {
  if (std::all_of(sigmas.begin(), sigmas.end(), [](float sigma) { return std::isfinite(sigma); }))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "schedule_tokens: with so many tokens and the scheduler's base_shift and max_shift every noise level is 1; 0 "
      "(the model's own number) or a smaller one is needed, or explicit sigmas");
}

PassList PassesOf(const PerModality<GuidanceParams>& guidance) {
  const auto scales = guidance.Map(ScalesOf);
  return PassesFor(scales.video, scales.audio);
}

// Steps on which the transformer runs: those that predict some modality anew.
int64_t ForwardPasses(const StagePlan& stage) {
  int64_t count = 0;
  for (int64_t i = 0; i < stage.steps; ++i) {
    count += i % (stage.guidance.video.skip_step + 1) == 0 || i % (stage.guidance.audio.skip_step + 1) == 0 ? 1 : 0;
  }
  return count;
}

absl::StatusOr<StagePlan> PlanDenoising(const ModelConfig& config, const RunPlan& plan, const LatentGrid& grid) {
  const GenerationRequest& request = plan.request;
  StagePlan stage{.kind = StageKind::kDenoise, .label = "denoise", .grid = grid};
  stage.sigmas = NoiseLevels(config.scheduler, request, grid.tokens());
  KINORA_RETURN_IF_ERROR(CheckNoiseLevels(stage.sigmas));
  stage.steps = static_cast<int64_t>(stage.sigmas.size()) - 1;
  stage.guidance = {*request.video_guidance, *request.audio_guidance};
  stage.passes = PassesOf(stage.guidance);
  for (const LoraInput& lora : request.loras) stage.loras.push_back({lora.id, lora.strength});
  const int64_t rows = static_cast<int64_t>(stage.passes.size()) * (grid.tokens() + plan.audio_latents);
  stage.tokens = ForwardPasses(stage) * rows;
  return stage;
}

}  // namespace

GuidanceScales ScalesOf(const GuidanceParams& g) { return {g.cfg_scale, g.stg_scale, g.modality_scale, g.rescale}; }

double RunPlan::flops() const {
  double sum = 0;
  for (const StagePlan& stage : stages) sum += stage.cost.flops;
  return sum;
}

const StagePlan* RunPlan::Find(std::string_view label) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const StagePlan& s) { return s.label == label; });
  return found == stages.end() ? nullptr : &*found;
}

absl::StatusOr<RunPlan> PlanStages(const ModelConfig& config, const VideoDecoder& decoder,
                                   const GenerationRequest& request, const std::array<int64_t, 2>& text_tokens) {
  const LatentScale scale = ScaleOf(config);
  const LatentGrid grid = GridOf(request.num_frames, request.height, request.width, scale);
  RunPlan plan{.request = request, .text_tokens = text_tokens};
  plan.audio_latents = std::max<int64_t>(1, AudioLatents(request.num_frames, request.frame_rate, scale));
  KINORA_ASSIGN_OR_RETURN(StagePlan denoise, PlanDenoising(config, plan, grid));
  const int64_t channels = config.transformer.video.in_channels;
  KINORA_ASSIGN_OR_RETURN(plan.tiles,
                          VideoDecodeStage(decoder).Plan({1, channels, grid.frames, grid.height, grid.width}));
  const bool guided = denoise.passes[0] == Pass::kUncond;
  plan.stages.push_back(
      {.kind = StageKind::kEncode, .label = "encode", .tokens = text_tokens[0] + (guided ? text_tokens[1] : 0)});
  plan.audio_stage = plan.stages.size();
  plan.stages.push_back(std::move(denoise));
  plan.stages.push_back({.kind = StageKind::kDecodeVideo,
                         .label = "decode_video",
                         .steps = plan.tiles.tiles(),
                         .tokens = plan.tiles.tokens(),
                         .grid = grid});
  plan.stages.push_back({.kind = StageKind::kDecodeAudio, .label = "decode_audio", .tokens = plan.audio_latents});
  return plan;
}

}  // namespace kinora
