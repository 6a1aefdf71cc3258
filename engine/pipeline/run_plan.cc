#include "engine/pipeline/run_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/modules.h"
#include "engine/pipeline/video_decode_stage.h"
#include "engine/request/schedule.h"

namespace kinora {
namespace {

// The final 0 last. grid_tokens: of the video latent.
std::vector<float> NoiseLevels(const ModelDescription& model, const GenerationRequest& request, int64_t grid_tokens) {
  if (!request.sigmas.empty()) return {request.sigmas.begin(), request.sigmas.end()};
  const RecipeDescription* recipe = model.Find(request.recipe, request.upsampler);
  KINORA_CHECK(recipe != nullptr) << "not a resolved request";
  if (!recipe->fixed_sigmas.empty()) return {recipe->fixed_sigmas.begin(), recipe->fixed_sigmas.end()};
  const int64_t tokens = request.schedule_tokens > 0   ? request.schedule_tokens
                         : request.schedule_tokens < 0 ? grid_tokens
                                                       : model.schedule.max_tokens;
  return DevSigmas(model.schedule, request.num_inference_steps, tokens);
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

StagePlan PlanDenoising(const ModelDescription& model, const RunPlan& plan, const LatentGrid& grid) {
  const GenerationRequest& request = plan.request;
  StagePlan stage{.kind = StageKind::kDenoise, .label = "denoise", .grid = grid};
  stage.sigmas = NoiseLevels(model, request, grid.tokens());
  stage.steps = static_cast<int64_t>(stage.sigmas.size()) - 1;
  // A recipe without guidance has none: every term is off.
  stage.guidance = {request.video_guidance.value_or(GuidanceParams{}),
                    request.audio_guidance.value_or(GuidanceParams{})};
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

std::string RunPlan::TextEncoderResidence() const {
  return evicted_bytes == 0 ? "resident"
                            : absl::StrFormat("evicted, %.2f GB", static_cast<double>(evicted_bytes) / 1e9);
}

absl::StatusOr<RunPlan> PlanStages(const ModelConfig& config, const ModelDescription& model,
                                   const VideoDecoder& decoder, const GenerationRequest& request,
                                   const std::array<int64_t, 2>& text_tokens) {
  const LatentScale scale = ScaleOf(config);
  const LatentGrid grid = GridOf(request.num_frames, request.height, request.width, scale);
  RunPlan plan{.request = request, .text_tokens = text_tokens};
  plan.audio_latents = std::max<int64_t>(1, AudioLatents(request.num_frames, request.frame_rate, scale));
  StagePlan denoise = PlanDenoising(model, plan, grid);
  const int64_t channels = config.transformer.video.in_channels;
  KINORA_ASSIGN_OR_RETURN(plan.tiles, VideoDecodeStage(decoder).Plan({grid.frames, grid.height, grid.width, channels}));
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
