#include "engine/pipeline/modules.h"

#include "engine/base/status_macros.h"
#include "engine/diffusion/schedule.h"

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
                                            {.cache_bytes = options.text_cache_bytes}));
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
  ModelDescription d;
  const LatentScale scale = ScaleOf(config);
  d.family = config.family;
  d.kind = std::string(kind);
  d.recipes = {Recipe::kOneStage, Recipe::kDistilled};
  d.size_multiple = static_cast<int32_t>(scale.space);
  d.frame_multiple = static_cast<int32_t>(scale.time);
  // What the positions were trained to tell apart: twice the pixels of the position grid, 20 s at 25 frames a second.
  d.max_width = static_cast<int32_t>(2 * config.transformer.video.max_positions[2] / scale.space) * d.size_multiple;
  d.max_height = static_cast<int32_t>(2 * config.transformer.video.max_positions[1] / scale.space) * d.size_multiple;
  d.max_frames =
      static_cast<int32_t>(25 * config.transformer.video.max_positions[0] / scale.time) * d.frame_multiple + 1;
  d.layers = static_cast<int32_t>(config.transformer.layers);
  d.default_stg_blocks = {DefaultStgBlock(config)};
  const std::vector<float> sigmas = DistilledSigmas();
  d.distilled_sigmas.assign(sigmas.begin(), sigmas.end());
  const GenerationConfig& own = config.generation;
  d.default_negative_prompt = own.negative_prompt.value_or(kNegativePrompt);
  d.defaults.width = static_cast<int32_t>(own.width);
  d.defaults.height = static_cast<int32_t>(own.height);
  d.defaults.num_frames = static_cast<int32_t>(own.num_frames);
  d.defaults.frame_rate = own.frame_rate;
  const int32_t family_steps = config.family == "ltx-2.0" ? 40 : 30;
  d.defaults.num_inference_steps =
      own.num_inference_steps > 0 ? static_cast<int32_t>(own.num_inference_steps) : family_steps;
  d.defaults.video_guidance = Guidance(own.video, d.default_stg_blocks);
  d.defaults.audio_guidance = Guidance(own.audio, d.default_stg_blocks);
  return d;
}

}  // namespace kinora
