#include "engine/pipeline/modules.h"

#include <algorithm>
#include <tuple>

#include "engine/base/status_macros.h"
#include "engine/config/family_defaults.h"
#include "engine/pipeline/convolution_decoder.h"
#include "engine/pipeline/diffusion_decoder.h"
#include "engine/request/upscaling.h"

namespace kinora {
namespace {

// The default negative prompt of all released pipelines (ltx_pipelines/utils/constants.py DEFAULT_NEGATIVE_PROMPT). It
// is a parameter of the model and must stay verbatim, because other words produce other pictures.
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

// In a smaller model than the released ones, the block at the same relative depth.
int32_t DefaultStgBlock(const ModelConfig& config) {
  constexpr int64_t kReleasedLayers = 48;
  return static_cast<int32_t>(DefaultsOf(config.family).stg_block * config.transformer.layers / kReleasedLayers);
}

GuidanceParams Guidance(const GuidanceConfig& config, const std::vector<int32_t>& stg_blocks) {
  return {.cfg_scale = config.cfg_scale,
          .stg_scale = config.stg_scale,
          .stg_blocks = stg_blocks,
          .modality_scale = config.modality_scale,
          .rescale = config.rescale};
}

// The parts that all recipes of the model share: the grid, the limits, and the default size and rate.
RecipeDescription DescribeShape(const ModelConfig& config, Recipe recipe) {
  const LatentScale scale = ScaleOf(config);
  const auto& positions = config.transformer.video.max_positions;
  const int64_t cells = config.video_decoder.smallest_latent_side();
  RecipeDescription d{.recipe = recipe,
                      .size_multiple = static_cast<int32_t>(scale.space),
                      .frame_multiple = static_cast<int32_t>(scale.time),
                      .min_size = static_cast<int32_t>(cells * scale.space)};
  // The range of positions seen in training: twice the pixels of the position grid, and 20 s at 25 frames per second.
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
  const std::vector<int32_t> stg_blocks = {DefaultStgBlock(config)};
  d.guided = true;
  d.defaults.num_inference_steps =
      own.num_inference_steps > 0 ? static_cast<int32_t>(own.num_inference_steps) : DefaultsOf(config.family).steps;
  d.defaults.video_guidance = Guidance(own.video, stg_blocks);
  d.defaults.audio_guidance = Guidance(own.audio, stg_blocks);
  d.defaults.negative_prompt = own.negative_prompt.value_or(kNegativePrompt);
  return d;
}

// ltx_pipelines/utils/constants.py LTX_2_3_HQ_PARAMS: fewer steps with two evaluations each, and no STG.
RecipeDescription DescribeHq(const ModelConfig& config) {
  RecipeDescription d = DescribeOneStage(config);
  d.defaults.num_inference_steps = 15;
  d.defaults.video_guidance->stg_scale = d.defaults.audio_guidance->stg_scale = 0;
  d.defaults.video_guidance->rescale = 0.45;
  d.defaults.audio_guidance->rescale = 1;
  return d;
}

RecipeDescription DescribeDistilled(const ModelConfig& config) {
  RecipeDescription d = DescribeShape(config, Recipe::kDistilled);
  const std::vector<float> sigmas = DistilledSigmas();
  d.fixed_sigmas.assign(sigmas.begin(), sigmas.end());
  d.defaults.num_inference_steps = static_cast<int32_t>(sigmas.size()) - 1;
  return d;
}

// Turns a one-stage recipe into a two-stage one, with sizes that fit the grids of both stages.
RecipeDescription InTwoStages(RecipeDescription d, Recipe recipe, const Upscaling& upscaling) {
  const auto nearest = [](int32_t value, int32_t multiple) {
    return std::max(multiple, (value + multiple / 2) / multiple * multiple);
  };
  d.recipe = d.defaults.recipe = recipe;
  d.upsampler = d.defaults.upsampler = upscaling.name;
  d.needs.upsampler = true;
  d.min_size =
      static_cast<int32_t>((d.min_size * upscaling.space_up + upscaling.space_down - 1) / upscaling.space_down);
  d.size_multiple = static_cast<int32_t>(upscaling.SizeMultiple(d.size_multiple));
  d.frame_multiple = static_cast<int32_t>(upscaling.FrameMultiple(d.frame_multiple));
  d.max_width = d.max_width / d.size_multiple * d.size_multiple;
  d.max_height = d.max_height / d.size_multiple * d.size_multiple;
  d.max_frames = (d.max_frames - 1) / d.frame_multiple * d.frame_multiple + 1;
  d.defaults.width = nearest(d.defaults.width, d.size_multiple);
  d.defaults.height = nearest(d.defaults.height, d.size_multiple);
  d.defaults.num_frames = nearest(d.defaults.num_frames - 1, d.frame_multiple) + 1;
  return d;
}

// Adds the two-stage recipes for each upsampler of the model; if it has none, for "x2", which requests then need.
void AddTwoStages(const ModelConfig& config, const DescribedParts& parts, ModelDescription& model) {
  std::vector<const Upscaling*> upscalings;
  for (const auto& upsampler : {config.spatial_upsampler, config.temporal_upsampler}) {
    if (upsampler.has_value()) upscalings.push_back(FindUpscaling(UpscalingOf(*upsampler)));
  }
  if (upscalings.empty()) upscalings.push_back(FindUpscaling("x2"));
  for (const Upscaling* upscaling : upscalings) {
    RecipeDescription guided = InTwoStages(DescribeOneStage(config), Recipe::kTwoStage, *upscaling);
    guided.needs.distilled_lora = parts.kind != "distilled";
    model.recipes.push_back(std::move(guided));
    model.recipes.push_back(InTwoStages(DescribeDistilled(config), Recipe::kDistilledTwoStage, *upscaling));
    RecipeDescription hq = InTwoStages(DescribeHq(config), Recipe::kHq, *upscaling);
    hq.needs.distilled_lora = parts.kind != "distilled";
    model.recipes.push_back(std::move(hq));
  }
}

DevSchedule ScheduleOf(const SchedulerConfig& scheduler) {
  return {.base_shift = scheduler.base_shift,
          .max_shift = scheduler.max_shift,
          .base_tokens = scheduler.base_tokens,
          .max_tokens = scheduler.max_tokens,
          .terminal = scheduler.terminal.value_or(0.1)};
}

absl::StatusOr<std::unique_ptr<FrameDecoder>> LoadDecoder(WeightLoader weights, const VideoDecoderConfig& config,
                                                          DecoderBorder border) {
  if (config.diffusion) {
    KINORA_ASSIGN_OR_RETURN(DiffusionVideoDecoder decoder,
                            DiffusionVideoDecoder::Load(std::move(weights), config, {.border = border}));
    return std::make_unique<DiffusionDecoder>(std::make_shared<DiffusionVideoDecoder>(std::move(decoder)));
  }
  KINORA_ASSIGN_OR_RETURN(VideoDecoder decoder, VideoDecoder::Load(std::move(weights), config));
  return std::make_unique<ConvolutionDecoder>(std::make_shared<VideoDecoder>(std::move(decoder)));
}

// Loads the video modules.
absl::Status LoadPicture(const WeightLoader& root, const ModelConfig& config, DecoderBorder border, Modules& modules) {
  for (const auto& [name, wanted, loaded] :
       {std::tuple(std::string_view("spatial_upsampler"), &config.spatial_upsampler, &modules.spatial_upsampler),
        {"temporal_upsampler", &config.temporal_upsampler, &modules.temporal_upsampler}}) {
    if (!wanted->has_value()) continue;
    KINORA_ASSIGN_OR_RETURN(*loaded, LatentUpsampler::Load(root.Under(name), root.Under("vae"), **wanted));
  }
  KINORA_ASSIGN_OR_RETURN(modules.video, LoadDecoder(root.Under("vae"), config.video_decoder, border));
  if (!config.video_encoder.unavailable.empty()) return absl::OkStatus();
  KINORA_ASSIGN_OR_RETURN(modules.video_encoder, VideoEncoder::Load(root.Under("vae"), config.video_encoder));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Modules> Modules::Load(const WeightLoader& root, const ModelConfig& config, Options options,
                                      absl::FunctionRef<void(std::string_view phase)> on_phase) {
  if (!config.gemma.has_value()) {
    return absl::InvalidArgumentError(
        "model: no text encoder; give its folder (config.json, weights, tokenizer.model) with --model "
        "text_encoder=DIR, "
        "of a frontend --worker-model");
  }
  Modules modules;
  if (root.weights() != nullptr) {
    modules.adapters = std::make_unique<Adapters>(root.weights(), std::move(options.lora_cache));
  }
  on_phase("load text encoder");
  KINORA_ASSIGN_OR_RETURN(
      modules.text,
      TextEncoder::Load(
          root, *config.gemma, config.connector, std::move(options.tokenizer),
          {.cache_bytes = options.text_cache_bytes, .gemma = options.text_encoder, .modalities = options.modalities}));
  if (config.duration_head.has_value() && options.rank_zero) {
    KINORA_ASSIGN_OR_RETURN(modules.duration_head,
                            DurationHead::Load(root.Under("duration_head"), *config.duration_head));
  }
  on_phase("load transformer");
  KINORA_ASSIGN_OR_RETURN(modules.transformer,
                          Transformer::Load(root.Under("transformer"), config.transformer, options.modalities));
  on_phase("load autoencoders");
  if (options.modalities == Modalities::kBoth) {
    KINORA_RETURN_IF_ERROR(LoadPicture(root, config, options.decoder_border, modules));
  }
  if (!options.rank_zero) return modules;
  KINORA_ASSIGN_OR_RETURN(modules.audio, AudioDecoder::Load(root.Under("audio_vae"), config.audio_decoder));
  KINORA_ASSIGN_OR_RETURN(modules.vocoder, Vocoder::Load(root.Under("vocoder"), config.vocoder, config.audio_decoder));
  if (config.audio_encoder.unavailable.empty()) {
    KINORA_ASSIGN_OR_RETURN(modules.audio_encoder, AudioEncoder::Load(root.Under("audio_vae"), config.audio_encoder));
    KINORA_ASSIGN_OR_RETURN(modules.mel, MelFrontEnd::Make(root.backend(), config.audio_encoder));
  }
  return modules;
}

LatentScale ScaleOf(const ModelConfig& config) {
  return {.time = config.video_decoder.time_factor(),
          .space = config.video_decoder.space_factor(),
          .audio_rate = config.audio_decoder.sample_rate,
          .audio_hop = config.audio_decoder.hop_length,
          .audio_time = config.audio_decoder.factor()};
}

std::string_view UpscalingOf(const UpsamplerConfig& upsampler) {
  for (const std::string_view name : {"x2", "x1.5", "temporal_x2"}) {
    const Upscaling& known = *FindUpscaling(name);
    if (known.space_up == upsampler.space_up && known.space_down == upsampler.space_down &&
        known.time == upsampler.time_up) {
      return name;
    }
  }
  return "";
}

ModelDescription Describe(const ModelConfig& config, const DescribedParts& parts) {
  const std::string_view kind = parts.kind;
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
                         .parts = {.video_encoder = config.video_encoder.unavailable.empty(),
                                   .upsampler = config.spatial_upsampler || config.temporal_upsampler,
                                   .distilled_lora = parts.distilled_lora,
                                   .audio_encoder = config.audio_encoder.unavailable.empty(),
                                   .duration_head = config.duration_head.has_value()},
                         .schedule = ScheduleOf(config.scheduler),
                         .image_crf = config.generation.image_crf};
  for (const auto& [width, height, num_frames] : config.generation.trained_shapes) {
    model.trained_shapes.push_back({.width = static_cast<int32_t>(width),
                                    .height = static_cast<int32_t>(height),
                                    .num_frames = static_cast<int32_t>(num_frames)});
  }
  model.recipes = {DescribeOneStage(config), DescribeDistilled(config)};
  AddTwoStages(config, parts, model);
  return model;
}

}  // namespace kinora
