#include "engine/pipeline/run_plan.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/config/family_defaults.h"
#include "engine/pipeline/modules.h"
#include "engine/request/distilled_share.h"
#include "engine/request/schedule.h"
#include "engine/request/upscaling.h"

namespace kinora {
namespace {

// A denoising stage of a recipe.
struct DenoisingPart {
  SamplerKind sampler = SamplerKind::kEuler;
  double distilled = 0;  // strength of the model's distilled LoRA, if it has one
};

struct RecipeParts {
  Recipe recipe;
  DenoisingPart first;
  std::optional<DenoisingPart> second;  // after the upsampler: the last noise levels, without guidance
  bool sound_of_first = false;          // the clip has the sound of the first stage
};

constexpr DenoisingPart First(Recipe recipe, SamplerKind sampler = SamplerKind::kEuler) {
  return {.sampler = sampler, .distilled = FirstDistilledShare(recipe)};
}

constexpr DenoisingPart kHqSecond{.sampler = SamplerKind::kRes2s, .distilled = 0.5};

// ltx_pipelines: ti2vid_one_stage.py, ti2vid_two_stages.py, distilled.py,
// ti2vid_two_stages_hq.py (docs/model.md "Recipes").
constexpr RecipeParts kRecipes[] = {
    {Recipe::kOneStage, First(Recipe::kOneStage), {}},
    {Recipe::kTwoStage, First(Recipe::kTwoStage), {{.distilled = 1}}, /*sound_of_first=*/true},
    {Recipe::kDistilled, First(Recipe::kDistilled), {}},
    {Recipe::kDistilledTwoStage, First(Recipe::kDistilledTwoStage), {{.distilled = 1}}},
    {Recipe::kHq, First(Recipe::kHq, SamplerKind::kRes2s), kHqSecond, /*sound_of_first=*/true},
};

const RecipeParts& PartsOf(Recipe recipe) {
  const auto* const found =
      std::find_if(std::begin(kRecipes), std::end(kRecipes), [&](const RecipeParts& r) { return r.recipe == recipe; });
  KINORA_CHECK(found != std::end(kRecipes)) << "not a resolved request";
  return *found;
}

// A retake uses the plain sampler also with LTX-2.5 (ltx_pipelines/retake.py).
SamplerKind FirstSampler(const ModelDescription& model, const RecipeParts& parts, const GenerationRequest& request) {
  const bool distilled = parts.recipe == Recipe::kDistilled || parts.recipe == Recipe::kDistilledTwoStage;
  const bool ancestral = distilled && !request.retake.has_value() && DefaultsOf(model.family).ancestral_distilled;
  return ancestral ? SamplerKind::kAncestral : parts.first.sampler;
}

// Returns the noise levels, including the final 0.
std::vector<float> NoiseLevels(const ModelDescription& model, const GenerationRequest& request) {
  if (!request.sigmas.empty()) return {request.sigmas.begin(), request.sigmas.end()};
  const RecipeDescription* recipe = model.Find(request.recipe, request.upsampler);
  KINORA_CHECK(recipe != nullptr) << "not a resolved request";
  if (!recipe->fixed_sigmas.empty()) return {recipe->fixed_sigmas.begin(), recipe->fixed_sigmas.end()};
  return DevSigmas(model.schedule, request.num_inference_steps, model.ScheduleTokens(request));
}

// A modality that a retake keeps needs no guidance passes.
PassList PassesOf(const RunPlan& plan, const PerModality<GuidanceParams>& guidance) {
  const GuidanceScales video = plan.frozen.video ? GuidanceScales{} : ScalesOf(guidance.video);
  const GuidanceScales audio = plan.frozen.audio ? GuidanceScales{} : ScalesOf(guidance.audio);
  return PassesFor(video, audio);
}

// Number of evaluations that run the transformer, because they predict at least one modality.
int64_t ForwardPasses(const RunPlan& plan, const StagePlan& stage) {
  int64_t count = 0;
  for (int64_t i = 0; i < stage.steps; ++i) {
    const int64_t step = HeldStep(stage.sampler, i, stage.steps);
    const bool video = plan.denoised.video && !plan.frozen.video && step % (stage.guidance.video.skip_step + 1) == 0;
    const bool audio = plan.denoised.audio && !plan.frozen.audio && step % (stage.guidance.audio.skip_step + 1) == 0;
    count += video || audio ? 1 : 0;
  }
  return count;
}

// Fills in the rest of a denoising stage, given its grid, noise levels, guidance and the request's LoRAs.
void Complete(const ModelDescription& model, const RunPlan& plan, const DenoisingPart& part, StagePlan& stage) {
  stage.kind = StageKind::kDenoise;
  stage.sampler = part.sampler;
  stage.steps = static_cast<int64_t>(EvaluationLevels(stage.sampler, stage.sigmas).size());
  stage.passes = PassesOf(plan, stage.guidance);
  if (part.distilled != 0 && model.parts.distilled_lora) {
    stage.loras.push_back({std::string(kDistilledLora), part.distilled});
  }
  stage.undistilled = part.distilled != 0 && !model.parts.distilled_lora && model.kind == "dev";
  const int64_t rows = static_cast<int64_t>(stage.passes.size()) * (stage.grid.tokens() + plan.audio_latents);
  stage.tokens = ForwardPasses(plan, stage) * rows;
}

StagePlan PlanFirst(const ModelDescription& model, const RunPlan& plan, const DenoisingPart& part,
                    const LatentGrid& grid) {
  const GenerationRequest& request = plan.request;
  StagePlan stage{.grid = grid, .frame_rate = request.frame_rate};
  stage.sigmas = NoiseLevels(model, request);
  // The default turns every guidance term off, for recipes without guidance.
  stage.guidance = {request.video_guidance.value_or(GuidanceParams{}),
                    request.audio_guidance.value_or(GuidanceParams{})};
  for (const LoraInput& lora : request.loras) stage.loras.push_back({lora.id, lora.strength});
  Complete(model, plan, part, stage);
  return stage;
}

StagePlan PlanSecond(const ModelDescription& model, const RunPlan& plan, const DenoisingPart& part,
                     const LatentGrid& grid) {
  StagePlan stage{.part = 2, .grid = grid, .frame_rate = plan.request.frame_rate};
  stage.sigmas = RefiningSigmas();
  stage.noise_scale = stage.sigmas[0];
  for (const LoraInput& lora : plan.request.loras) {
    stage.loras.push_back({lora.id, lora.strength_stage2.value_or(lora.strength)});
  }
  Complete(model, plan, part, stage);
  return stage;
}

// Keyframe interpolation, a two-stage run with a condition that is appended explicitly, decodes the last stage's sound
// (ltx_pipelines/keyframe_interpolation.py).
bool DecodesLastSound(const GenerationRequest& request) {
  return request.recipe == Recipe::kTwoStage && std::any_of(request.conditions.begin(), request.conditions.end(),
                                                            [](const ConditionInput& c) { return c.append; });
}

// Adds the denoising stages and the upsampling between them.
void AddDenoising(const ModelDescription& model, const LatentScale& scale, const LatentGrid& grid, RunPlan& plan) {
  const GenerationRequest& request = plan.request;
  const RecipeParts& parts = PartsOf(request.recipe);
  const Upscaling* const upscaling = FindUpscaling(request.upsampler);
  KINORA_CHECK(upscaling != nullptr) << "not a resolved request";
  const ClipSize size = upscaling->Before({request.num_frames, request.height, request.width});
  const LatentGrid first = GridOf(size.num_frames, size.height, size.width, scale);
  DenoisingPart part = parts.first;
  part.sampler = FirstSampler(model, parts, request);
  plan.stages.push_back(PlanFirst(model, plan, part, first));
  plan.audio_stage = plan.stages.size() - 1;
  if (!parts.second.has_value()) return;
  plan.stages.back().part = 1;
  plan.stages.back().time = upscaling->time;
  plan.stages.back().frame_rate /= static_cast<double>(upscaling->time);
  plan.stages.push_back({.kind = StageKind::kUpsample, .tokens = grid.tokens(), .grid = grid});
  plan.stages.push_back(PlanSecond(model, plan, *parts.second, grid));
  if (!parts.sound_of_first || DecodesLastSound(request)) plan.audio_stage = plan.stages.size() - 1;
}

// Adds the guides of each denoising stage, and the stage that encodes them.
absl::Status AddGuides(const ModelConfig& config, RunPlan& plan) {
  StagePlan encode{.kind = StageKind::kEncodeInputs};
  StagePlan* before = nullptr;
  for (StagePlan& stage : plan.stages) {
    if (stage.kind == StageKind::kDenoise) {
      KINORA_ASSIGN_OR_RETURN(stage.guides, PlanGuides(config, plan.request, stage.guided_stage()));
      stage.appended = AppendedTokens(stage.guides);
      stage.tokens += ForwardPasses(plan, stage) * static_cast<int64_t>(stage.passes.size()) * stage.appended;
      if (before->kind == StageKind::kUpsample) before->appended = stage.appended;
      for (const GuidePlan& guide : stage.guides) {
        encode.steps += guide.tiles.tiles();
        encode.tokens += guide.tiles.tokens();
      }
    }
    before = &stage;
  }
  if (encode.steps == 0) return absl::OkStatus();
  plan.stages.insert(plan.stages.begin() + 1, std::move(encode));
  ++plan.audio_stage;
  return absl::OkStatus();
}

void AddRetake(const LatentScale& scale, RunPlan& plan) {
  const GenerationRequest& request = plan.request;
  if (!request.retake.has_value()) return;
  plan.held_sound = PlanHeldSound(request, plan.audio_latents, scale);
  plan.frozen = {request.retake->keep_video, request.retake->keep_audio};
}

void AddGivenSound(RunPlan& plan) {
  const GenerationRequest& request = plan.request;
  if (!request.audio.has_value()) return;
  plan.given_sound = HeardSpan(*request.audio, request.num_frames, request.frame_rate);
  plan.stages.insert(plan.stages.begin() + 1, {.kind = StageKind::kEncodeAudio, .tokens = plan.audio_latents});
  ++plan.audio_stage;
}

absl::Status PlanTilesOf(const PlannedDecoder& decoder, const Shape& latent, RunPlan& plan) {
  KINORA_ASSIGN_OR_RETURN(plan.tiles, decoder.decoder->Plan(latent, std::nullopt));
  plan.untiled_decode = decoder.untiled && plan.tiles.tiles() > 1;
  if (!plan.untiled_decode) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(plan.tiles, decoder.decoder->Plan(latent, Tiling{}));
  return absl::OkStatus();
}

void AddDecoding(const LatentGrid& grid, RunPlan& plan) {
  if (plan.denoised.video) {
    plan.stages.push_back(
        {.kind = StageKind::kDecodeVideo, .steps = plan.tiles.tiles(), .tokens = plan.tiles.tokens(), .grid = grid});
  }
  if (!plan.denoised.audio) return;  // the given sound is the clip's sound
  plan.stages.push_back({.kind = StageKind::kDecodeAudio, .tokens = plan.audio_latents});
}

}  // namespace

GuidanceScales ScalesOf(const GuidanceParams& g) { return {g.cfg_scale, g.stg_scale, g.modality_scale, g.rescale}; }

double RunPlan::flops() const {
  double sum = 0;
  for (const StagePlan& stage : stages) sum += stage.cost.flops;
  return sum;
}

bool RunPlan::guided() const {
  return std::any_of(stages.begin(), stages.end(),
                     [](const StagePlan& stage) { return !stage.passes.empty() && stage.passes[0] == Pass::kUncond; });
}

const StagePlan* RunPlan::Find(std::string_view stage) const {
  const auto found =
      std::find_if(stages.begin(), stages.end(), [&](const StagePlan& s) { return s.stage().name() == stage; });
  return found == stages.end() ? nullptr : &*found;
}

std::string RunPlan::TextEncoderResidence() const {
  return evicted_bytes == 0 ? "resident"
                            : absl::StrFormat("evicted, %.2f GB", static_cast<double>(evicted_bytes) / 1e9);
}

absl::StatusOr<RunPlan> PlanStages(const ModelConfig& config, const ModelDescription& model,
                                   const PlannedDecoder& decoder, const GenerationRequest& request,
                                   const std::array<int64_t, 2>& text_tokens) {
  const LatentScale scale = ScaleOf(config);
  const LatentGrid grid = GridOf(request.num_frames, request.height, request.width, scale);
  RunPlan plan{
      .request = request, .denoised = {!request.audio_only, !request.audio.has_value()}, .text_tokens = text_tokens};
  plan.audio_latents = std::max<int64_t>(1, AudioLatents(request.num_frames, request.frame_rate, scale));
  const int64_t channels = config.transformer.video.in_channels;
  if (plan.denoised.video) {
    KINORA_RETURN_IF_ERROR(PlanTilesOf(decoder, {grid.frames, grid.height, grid.width, channels}, plan));
  }
  AddRetake(scale, plan);
  plan.stages.push_back({.kind = StageKind::kEncode});
  AddDenoising(model, scale, grid, plan);
  StagePlan& encode = plan.stages[0];
  encode.tokens = text_tokens[0] + (plan.guided() ? text_tokens[1] : 0);
  encode.loras = plan.stages[1].loras;
  AddDecoding(grid, plan);
  KINORA_RETURN_IF_ERROR(AddGuides(config, plan));
  AddGivenSound(plan);
  return plan;
}

}  // namespace kinora
