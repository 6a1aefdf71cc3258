#include "engine/pipeline/modules.h"

#include "engine/base/status_macros.h"

namespace kinora {
namespace {

// The list that every released pipeline passes where guidance needs a negative prompt (ltx_pipelines/utils/constants.py
// DEFAULT_NEGATIVE_PROMPT): a parameter of the model, kept to the letter, since other words give other pictures.
constexpr char kNegativePrompt[] =
    "has_subtitles, has_blurbox, transition from black, transition to black, speech_ending_short, "
    "blurry, out of focus, overexposed, underexposed, low contrast, washed out colors, excessive noise, "
    "grainy texture, poor lighting, flickering, motion blur, distorted proportions, unnatural skin tones, "
    "deformed facial features, asymmetrical face, missing facial features, extra limbs, disfigured hands, "
    "wrong hand count, artifacts around text, inconsistent perspective, camera shake, incorrect depth of "
    "field, background too sharp, background clutter, distracting reflections, harsh shadows, inconsistent "
    "lighting direction, color banding, cartoonish rendering, 3D CGI look, unrealistic materials, uncanny "
    "valley effect, incorrect ethnicity, wrong gender, exaggerated expressions, wrong gaze direction, "
    "mismatched lip sync, silent or muted audio, distorted voice, robotic voice, echo, background noise, "
    "off-sync audio, incorrect dialogue, added dialogue, repetitive speech, jittery movement, awkward "
    "pauses, incorrect timing, unnatural transitions, inconsistent framing, tilted camera, flat lighting, "
    "inconsistent tone, cinematic oversaturation, stylized filters, or AI artifacts.";

// STG perturbs one block of 48: the 29th (index 28) of LTX-2.3, the 30th of 2.0. A smaller model's block lies as deep.
int32_t DefaultStgBlock(const ModelConfig& config) {
  constexpr int64_t kReleasedLayers = 48;
  const int64_t released = config.family == "ltx-2.0" ? 29 : 28;
  return static_cast<int32_t>(released * config.transformer.layers / kReleasedLayers);
}

GuidanceParams Guidance(const GuidanceConfig& config, const std::vector<int32_t>& stg_blocks) {
  return {.cfg_scale = config.cfg_scale,
          .stg_scale = config.stg_scale,
          .stg_blocks = stg_blocks,
          .modality_scale = config.modality_scale,
          .rescale = config.rescale};
}

// What every recipe of the model shares: the grid, the limits, and the defaults of sizes and rate.
RecipeDescription DescribeShape(const ModelConfig& config, Recipe recipe) {
  const LatentScale scale = ScaleOf(config);
  const auto& positions = config.transformer.video.max_positions;
  const int64_t cells = config.video_decoder.smallest_latent_side();
  RecipeDescription d{.recipe = recipe,
                      .size_multiple = static_cast<int32_t>(scale.space),
                      .frame_multiple = static_cast<int32_t>(scale.time),
                      .min_size = static_cast<int32_t>(cells * scale.space)};
  // What the positions were trained to tell apart: twice the pixels of the position grid, 20 s at 25 frames per second.
  d.max_width = static_cast<int32_t>(2 * positions[2] / scale.space) * d.size_multiple;
  d.max_height = static_cast<int32_t>(2 * positions[1] / scale.space) * d.size_multiple;
  d.max_frames = static_cast<int32_t>(25 * positions[0] / scale.time) * d.frame_multiple + 1;
  d.defaults.recipe = recipe;
  d.defaults.width = static_cast<int32_t>(config.generation.width);
  d.defaults.height = static_cast<int32_t>(config.generation.height);
  d.defaults.num_frames = static_cast<int32_t>(config.generation.num_frames);
  d.defaults.frame_rate = config.generation.frame_rate;
  return d;
}

RecipeDescription DescribeOneStage(const ModelConfig& config) {
  RecipeDescription d = DescribeShape(config, Recipe::kOneStage);
  const GenerationConfig& own = config.generation;
  const int32_t family_steps = config.family == "ltx-2.0" ? 40 : 30;
  const std::vector<int32_t> stg_blocks = {DefaultStgBlock(config)};
  d.guided = true;
  d.defaults.num_inference_steps =
      own.num_inference_steps > 0 ? static_cast<int32_t>(own.num_inference_steps) : family_steps;
  d.defaults.video_guidance = Guidance(own.video, stg_blocks);
  d.defaults.audio_guidance = Guidance(own.audio, stg_blocks);
  d.defaults.negative_prompt = own.negative_prompt.value_or(kNegativePrompt);
  return d;
}

RecipeDescription DescribeDistilled(const ModelConfig& config) {
  RecipeDescription d = DescribeShape(config, Recipe::kDistilled);
  const std::vector<float> sigmas = DistilledSigmas();
  d.fixed_sigmas.assign(sigmas.begin(), sigmas.end());
  d.defaults.num_inference_steps = static_cast<int32_t>(sigmas.size()) - 1;
  return d;
}

DevSchedule ScheduleOf(const SchedulerConfig& scheduler) {
  return {.base_shift = scheduler.base_shift,
          .max_shift = scheduler.max_shift,
          .base_tokens = scheduler.base_tokens,
          .max_tokens = scheduler.max_tokens,
          .terminal = scheduler.terminal.value_or(0.1)};
}

}  // namespace

absl::StatusOr<Modules> Modules::Load(const WeightLoader& root, const ModelConfig& config, Options options,
                                      absl::FunctionRef<void(std::string_view phase)> on_phase) {
  if (!config.gemma.has_value()) {
    return absl::InvalidArgumentError(
        "model: no text encoder; give its folder with --model text_encoder=DIR (config.json, weights, "
        "tokenizer.model)");
  }
  Modules modules;
  on_phase("load text encoder");
  KINORA_ASSIGN_OR_RETURN(modules.text,
                          TextEncoder::Load(root, *config.gemma, config.connector, std::move(options.tokenizer),
                                            {.cache_bytes = options.text_cache_bytes, .gemma = options.text_encoder}));
  on_phase("load transformer");
  KINORA_ASSIGN_OR_RETURN(modules.transformer, Transformer::Load(root.Under("transformer"), config.transformer));
  on_phase("load decoders");
  KINORA_ASSIGN_OR_RETURN(modules.video, VideoDecoder::Load(root.Under("vae"), config.video_decoder));
  if (!options.sound) return modules;
  KINORA_ASSIGN_OR_RETURN(modules.audio, AudioDecoder::Load(root.Under("audio_vae"), config.audio_decoder));
  KINORA_ASSIGN_OR_RETURN(modules.vocoder, Vocoder::Load(root.Under("vocoder"), config.vocoder, config.audio_decoder));
  return modules;
}

LatentScale ScaleOf(const ModelConfig& config) {
  return {.time = config.video_decoder.time_factor(),
          .space = config.video_decoder.space_factor(),
          .audio_rate = config.audio_decoder.sample_rate,
          .audio_hop = config.audio_decoder.hop_length,
          .audio_time = config.audio_decoder.factor()};
}

ModelDescription Describe(const ModelConfig& config, std::string_view kind) {
  const LatentScale scale = ScaleOf(config);
  ModelDescription model{.family = config.family,
                         .kind = std::string(kind),
                         .default_recipe = kind == "dev"         ? Recipe::kOneStage
                                           : kind == "distilled" ? Recipe::kDistilled
                                                                 : Recipe::kUnspecified,
                         .blocks = static_cast<int32_t>(config.transformer.layers),
                         .pixels_per_token = static_cast<int32_t>(scale.space),
                         .frames_per_token = static_cast<int32_t>(scale.time),
                         .makes_video = true,
                         .makes_audio = true,
                         .schedule = ScheduleOf(config.scheduler)};
  model.recipes = {DescribeOneStage(config), DescribeDistilled(config)};
  return model;
}

}  // namespace kinora
