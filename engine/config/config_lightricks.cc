// Reads the metadata of Lightricks' files: key `config` with the sections transformer, vae, audio_vae, vocoder,
// scheduler.
// Names and defaults: ltx_core's model_configurator.py files and embeddings_connector.py.
#include <algorithm>
#include <array>

#include "engine/base/status_macros.h"
#include "engine/config/config_fields.h"
#include "engine/config/config_reader.h"
#include "engine/config/config_sections.h"
#include "engine/config/family_defaults.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

// Requires the only values that the reference supports.
void RequireKnownTransformer(const ConfigFields& f) {
  f.Require("attention_bias", true);
  f.Require("activation_fn", "gelu-approximate");
  f.Require("num_embeds_ada_norm", 1000);
  f.Require("use_linear_projection", false);
  f.Require("only_cross_attention", false);
  f.Require("cross_attention_norm", true);
  f.Require("double_self_attention", false);
  f.Require("standardization_norm", "rms_norm");
  f.Require("norm_elementwise_affine", false);
  f.Require("qk_norm", "rms_norm");
  f.Require("positional_embedding_type", "rope");
  f.Require("use_audio_video_cross_attention", true);
  f.Require("share_ff", false);
  f.Require("av_cross_ada_norm", true);
  f.Require("use_middle_indices_grid", true);
  f.Require("causal_temporal_positioning", true);
  if (f.Has("num_vector_embeds")) f.Problem("num_vector_embeds", "is not supported, only null is");
}

void ReadRope(const ConfigFields& f, RopeLayout* layout, bool* double_precision) {
  *layout = f.Choose("rope_type", {"split", "interleaved"}, 0) == 0 ? RopeLayout::kSplit : RopeLayout::kInterleaved;
  // The value is a string; in old files it may be false.
  if (f.Has("frequencies_precision") && *f.Find("frequencies_precision") != false) {
    *double_precision = f.Choose("frequencies_precision", {"float32", "float64"}, 0) == 1;
  }
}

TransformerConfig ReadTransformer(const ConfigFields& f) {
  RequireKnownTransformer(f);
  TransformerConfig t;
  f.Read("in_channels", &t.video.in_channels, kMaxWidth);
  f.Read("out_channels", &t.video.out_channels, kMaxWidth);
  f.Read("num_attention_heads", &t.video.heads, kMaxHeads);
  f.Read("attention_head_dim", &t.video.head_dim, kMaxHeadDim);
  f.Read("cross_attention_dim", &t.video.context_width, kMaxWidth);
  f.Read("positional_embedding_max_pos", &t.video.max_positions, kMaxPosition);
  f.Read("audio_in_channels", &t.audio.in_channels, kMaxWidth);
  f.Read("audio_out_channels", &t.audio.out_channels, kMaxWidth);
  f.Read("audio_num_attention_heads", &t.audio.heads, kMaxHeads);
  f.Read("audio_attention_head_dim", &t.audio.head_dim, kMaxHeadDim);
  f.Read("audio_cross_attention_dim", &t.audio.context_width, kMaxWidth);
  f.Read("audio_positional_embedding_max_pos", &t.audio.max_positions, kMaxPosition);
  f.Read("ff_bias", &t.video.ff_bias);
  f.Read("audio_ff_bias", &t.audio.ff_bias);
  f.Read("num_layers", &t.layers, kMaxLayers);
  f.Read("apply_gated_attention", &t.gated_attention);
  f.Read("cross_attention_adaln", &t.cross_attention_adaln);
  f.Read("use_prompt_adaln_single", &t.prompt_adaln);
  t.caption_projection = !f.Get("caption_proj_before_connector", false);
  f.Read("caption_channels", &t.caption_channels, kMaxWidth);
  f.Read("use_keyframes_abs_pos_embedding", &t.keyframes_abs_pos_embedding);
  f.Read("norm_eps", &t.norm_eps, kEpsilon);
  f.Read("positional_embedding_theta", &t.rope_theta, kRopeTheta);
  ReadRope(f, &t.rope_layout, &t.rope_double_precision);
  f.Read("timestep_scale_multiplier", &t.timestep_scale, kTimestepScale);
  f.Read("av_ca_timestep_scale_multiplier", &t.av_timestep_scale, kTimestepScale);
  return t;
}

void ReadConnectorStream(const ConfigFields& f, std::string_view prefix, ConnectorStreamConfig* stream) {
  f.Read(Cat(prefix, "connector_num_attention_heads"), &stream->heads, kMaxHeads);
  f.Read(Cat(prefix, "connector_attention_head_dim"), &stream->head_dim, kMaxHeadDim);
  f.Read(Cat(prefix, "connector_num_layers"), &stream->layers, kMaxLayers);
  f.Read(Cat(prefix, "connector_num_learnable_registers"), &stream->registers, kMaxWidth);
}

ConnectorConfig ReadConnector(const ConfigFields& f) {
  ConnectorConfig c;
  f.Read("caption_channels", &c.text_width, kMaxWidth);
  // All four keys are present (2.3) or none (2.0). The reference supports no other combination.
  constexpr std::pair<std::string_view, bool> kV2[] = {{"caption_proj_before_connector", true},
                                                       {"caption_projection_first_linear", false},
                                                       {"caption_proj_input_norm", false},
                                                       {"caption_projection_second_linear", false}};
  const auto has = [&](const auto& rule) { return f.Has(rule.first); };
  if (std::any_of(std::begin(kV2), std::end(kV2), has)) {
    for (const auto& [key, value] : kV2) {
      f.Require(key, value);
      if (!f.Has(key)) f.Problem(key, "is missing while the other keys of the 2.3 text path are there");
    }
    c.per_modality_projections = c.projection_bias = true;
  }
  f.Require("connector_norm_output", true);
  f.Require("use_embeddings_connector", true);
  if (c.per_modality_projections) {  // in lower case up to 2.3, in upper case since 2.5
    f.Choose("text_encoder_norm_type", {"per_token_rms", "PER_TOKEN_RMS"}, 0);
  }
  ReadConnectorStream(f, "", &c.video);
  c.audio = c.video;
  ReadConnectorStream(f, "audio_", &c.audio);
  f.Read("connector_apply_gated_attention", &c.gated_attention);
  f.Read("connector_ff_bias", &c.ff_bias);
  ReadRope(f, &c.rope_layout, &c.rope_double_precision);
  std::vector<double> max_positions = {c.rope_max_position};
  f.Read("connector_positional_embedding_max_pos", &max_positions, kMaxPosition);
  if (max_positions.size() != 1) f.Problem("connector_positional_embedding_max_pos", "must hold one number");
  c.rope_max_position = max_positions[0];
  return c;
}

// Reads one entry [name, params] of decoder_blocks. width: channels of the block's input.
bool ReadDecoderBlock(const ConfigFields& vae, const nlohmann::json& entry, int64_t width, VideoDecoderBlock* block) {
  if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()) {
    vae.Problem("decoder_blocks", "each entry must be [name, parameters]");
    return false;
  }
  const std::string& name = entry[0].get_ref<const std::string&>();
  const nlohmann::json layers_only = {{"num_layers", entry[1]}};
  const ConfigFields p(entry[1].is_object() ? &entry[1] : &layers_only, vae.Path(Cat("decoder_blocks.", name)),
                       &vae.problems());
  block->in_channels = block->out_channels = width;
  if (name == "res_x") {
    p.Read("num_layers", &block->layers, kMaxLayers);
    p.Require("inject_noise", false);
    if (block->layers == 0) p.Problem("num_layers", "is missing");
    return block->layers > 0;
  }
  block->kind = VideoDecoderBlock::Kind::kUpsample;
  if (name == "compress_time") {
    block->stride = {2, 1, 1};
  } else if (name == "compress_space") {
    block->stride = {1, 2, 2};
  } else if (name == "compress_all") {
    block->stride = {2, 2, 2};
    p.Read("residual", &block->residual);
  } else {
    vae.Problem("decoder_blocks",
                Cat(name, " is not supported; res_x, compress_time, compress_space and compress_all are"));
    return false;
  }
  int64_t reduction = 1;
  p.Read("multiplier", &reduction, 64);
  if (width % reduction != 0) {
    p.Problem("multiplier", Cat(reduction, " does not divide ", width, " channels"));
    return false;
  }
  block->out_channels = width / reduction;
  return true;
}

// Returns the factor by which a block divides the channels. The list is stored from the pixels to the latent, opposite
// to execution order, and only the width at the pixels' end is given.
int64_t Reduction(const ConfigFields& vae, const nlohmann::json& entry) {
  int64_t reduction = 1;
  if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_object()) return reduction;
  const std::string& name = entry[0].get_ref<const std::string&>();
  if (!name.starts_with("compress_")) return reduction;
  ConfigFields(&entry[1], vae.Path(Cat("decoder_blocks.", name)), &vae.problems()).Read("multiplier", &reduction, 64);
  return reduction;
}

// Requires the convolution decoder, whose layers follow one another.
void RequireConvolutionDecoder(const ConfigFields& f) {
  f.Require("dims", 3);
  f.Require("norm_layer", "pixel_norm");
  f.Require("use_quant_conv", false);
  if (f.Get("timestep_conditioning", true)) {
    f.Problem("timestep_conditioning", "true (which its absence means) is not supported, only false is");
  }
}

VideoDecoderConfig ReadVideoDecoder(const ConfigFields& f) {
  VideoDecoderConfig v;
  if (f.Choose("_class_name", {"CausalVideoAutoencoder", "CausalDiffusionVAE"}, 0) == 1) {
    v.diffusion = ReadDiffusionDecoder(f, &v);
    if (!f.problems().ok()) v.diffusion.reset();
    return v;
  }
  RequireConvolutionDecoder(f);
  f.Read("latent_channels", &v.latent_channels, kMaxWidth);
  f.Read("out_channels", &v.out_channels, 64);
  f.Read("patch_size", &v.patch_size, 64);
  f.Read("causal_decoder", &v.causal);
  v.padding = f.Choose("spatial_padding_mode", {"zeros", "reflect"}, 1) == 0 ? SpatialPadding::kZeros
                                                                             : SpatialPadding::kReflect;
  int64_t width = 128;
  f.Read("decoder_base_channels", &width, kMaxWidth);
  const nlohmann::json* blocks = f.Find("decoder_blocks");
  if (blocks == nullptr || !blocks->is_array() || blocks->empty() || blocks->size() > 64) {
    f.Problem("decoder_blocks", "must be a list of 1 to 64 blocks");
    return v;
  }
  for (const nlohmann::json& entry : *blocks) width = std::min(width * Reduction(f, entry), kMaxWidth + 1);
  if (width > kMaxWidth) {
    f.Problem("decoder_blocks", Cat("wider than ", kMaxWidth, " channels"));
    return v;
  }
  for (auto entry = blocks->rbegin(); entry != blocks->rend(); ++entry) {
    VideoDecoderBlock block;
    if (!ReadDecoderBlock(f, *entry, width, &block)) return v;
    width = block.out_channels;
    v.blocks.push_back(block);
  }
  return v;
}

AudioDecoderConfig ReadAudioDecoder(const ConfigFields& f) {
  AudioDecoderConfig a;
  const ConfigFields params = f.Object("model").Object("params"), dd = params.Object("ddconfig");
  const ConfigFields stft = f.Object("preprocessing").Object("stft"), mel = f.Object("preprocessing").Object("mel");
  params.Read("sampling_rate", &a.sample_rate, kMaxSampleRate);
  stft.Read("hop_length", &a.hop_length, kMaxSampleRate);
  stft.Read("causal", &a.causal);
  f.Object("variables").Read("mel_bins", &a.mel_bins, kMaxWidth);
  mel.Read("n_mel_channels", &a.mel_bins, kMaxWidth);
  dd.Read("mel_bins", &a.mel_bins, kMaxWidth);
  dd.Read("ch", &a.channels, kMaxWidth);
  dd.Read("out_ch", &a.out_channels, 64);
  dd.Read("ch_mult", &a.multipliers, 64);
  dd.Read("num_res_blocks", &a.resnets, kMaxLayers);
  dd.Read("z_channels", &a.latent_channels, kMaxWidth);
  dd.Require("norm_type", "pixel");
  dd.Require("causality_axis", "height");
  RejectAudioAttention(dd, a.multipliers.size(), /*middle_by_default=*/true);
  return a;
}

GeneratorConfig ReadGenerator(const ConfigFields& f, bool amp) {
  GeneratorConfig g;
  f.Require("resblock", amp ? "AMP1" : "1");
  f.Require("stereo", true);
  if (amp) {
    f.Require("activation", "snakebeta");
    g.activation = GeneratorConfig::Activation::kSnakeBeta;
  }
  f.Read("upsample_initial_channel", &g.hidden_channels, kMaxWidth);
  f.Read("upsample_rates", &g.upsample_rates, 64);
  f.Read("upsample_kernel_sizes", &g.upsample_kernels, 256);
  f.Read("resblock_kernel_sizes", &g.resblock_kernels, 256);
  ReadDilations(f, "resblock_dilation_sizes", &g.resblock_dilations);
  f.Read("use_bias_at_final", &g.final_bias);
  using Final = GeneratorConfig::Final;
  g.final_activation = f.Get("use_tanh_at_final", true) ? Final::kTanh : Final::kClamp;
  return g;
}

VocoderConfig ReadVocoder(const ConfigFields& f) {
  VocoderConfig v;
  if (!f.Has("bwe")) {
    v.base = ReadGenerator(f, /*amp=*/false);
    f.Read("output_sampling_rate", &v.base_rate, kMaxSampleRate);
    v.output_rate = v.base_rate;
    return v;
  }
  v.base = ReadGenerator(f.Object("vocoder"), /*amp=*/true);
  const ConfigFields bwe = f.Object("bwe");
  BandwidthExtensionConfig extension;
  extension.generator = ReadGenerator(bwe, /*amp=*/true);
  extension.generator.final_activation = GeneratorConfig::Final::kNone;
  bwe.Require("apply_final_activation", false);
  bwe.Read("n_fft", &extension.n_fft, 1 << 16);
  bwe.Read("hop_length", &extension.hop_length, 1 << 16);
  bwe.Read("num_mels", &extension.mel_bins, 1 << 16);
  bwe.RequireSame("win_size", extension.n_fft, "n_fft");
  v.base_rate = 16000;
  v.output_rate = 48000;
  bwe.Read("input_sampling_rate", &v.base_rate, kMaxSampleRate);
  bwe.Read("output_sampling_rate", &v.output_rate, kMaxSampleRate);
  v.extension = std::move(extension);
  return v;
}

// The keys are the names of the reference pipeline's arguments (diffusers LTX2Pipeline.__call__).
GuidanceConfig ReadGuidance(const ConfigFields& f, std::string_view prefix, GuidanceConfig guidance) {
  f.Read(Cat(prefix, "guidance_scale"), &guidance.cfg_scale, kGuidance);
  f.Read(Cat(prefix, "stg_scale"), &guidance.stg_scale, kGuidance);
  f.Read(Cat(prefix, "modality_scale"), &guidance.modality_scale, kGuidance);
  f.Read(Cat(prefix, "guidance_rescale"), &guidance.rescale, kRescale);
  return guidance;
}

// Reads "trained_shapes": [[width, height, num_frames], …].
std::vector<std::array<int64_t, 3>> ReadTrainedShapes(const ConfigFields& f, const VideoDecoderConfig& decoder) {
  constexpr std::string_view kKey = "trained_shapes";
  constexpr size_t kMost = 64;
  std::vector<std::array<int64_t, 3>> shapes;
  const nlohmann::json* list = f.Find(kKey);
  if (list == nullptr) return shapes;
  if (!list->is_array() || list->size() > kMost) {
    f.Problem(kKey, Cat("a list of at most ", kMost, " [width, height, num_frames] is needed"));
    return shapes;
  }
  const auto is_side = [&decoder](int64_t value) { return value % decoder.space_factor() == 0; };
  for (const nlohmann::json& item : *list) {
    std::array<int64_t, 3> shape{};
    bool right = item.is_array() && item.size() == shape.size();
    for (size_t i = 0; right && i < shape.size(); ++i) {
      right = item[i].is_number_integer() && item[i] >= 1 && item[i] <= kMaxSide;
      if (right) shape[i] = item[i];
    }
    if (!right || !is_side(shape[0]) || !is_side(shape[1]) || (shape[2] - 1) % decoder.time_factor() != 0) {
      f.Problem(kKey, Cat(ShortText(item), " is no [width, height, num_frames] of this model"));
      return shapes;
    }
    shapes.push_back(shape);
  }
  return shapes;
}

GenerationConfig ReadGeneration(const ConfigFields& f, const VideoDecoderConfig& decoder) {
  GenerationConfig g;
  f.Read("width", &g.width, kMaxSide);
  f.Read("height", &g.height, kMaxSide);
  f.Read("num_frames", &g.num_frames, kMaxSide);
  f.Read("frame_rate", &g.frame_rate, kFrameRate);
  for (const auto& [key, value] : {std::pair{"width", g.width}, {"height", g.height}}) {
    if (f.Has(key) && value % decoder.space_factor() != 0) {
      f.Problem(key, Cat(value, " is not a multiple of ", decoder.space_factor()));
    }
  }
  if (f.Has("num_frames") && (g.num_frames - 1) % decoder.time_factor() != 0) {
    f.Problem("num_frames", Cat(g.num_frames, " is not a multiple of ", decoder.time_factor(), ", plus 1"));
  }
  f.Read("num_inference_steps", &g.num_inference_steps, kMaxSteps);
  if (std::string text; f.Has("negative_prompt")) {
    f.Read("negative_prompt", &text);
    g.negative_prompt = std::move(text);
  }
  g.video = ReadGuidance(f, "", g.video);
  g.audio = ReadGuidance(f, "audio_", g.audio);
  g.trained_shapes = ReadTrainedShapes(f, decoder);
  return g;
}

}  // namespace

absl::StatusOr<ModelConfig> ParseLightricksConfig(std::string_view config, std::string_view model_version) {
  KINORA_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonText(config, "metadata config"));
  ConfigProblems problems;
  const ConfigFields root(&json, "config", &problems);
  ModelConfig model;
  model.version = model_version;
  model.transformer = ReadTransformer(root.Object("transformer"));
  model.connector = ReadConnector(root.Object("transformer"));
  if (root.Has("vae")) {
    model.video_decoder = ReadVideoDecoder(root.Object("vae"));
    model.video_encoder = ReadLightricksVideoEncoder(root.Object("vae"));
  }
  const ConfigFields audio = root.Object("audio_vae");
  model.audio_decoder = ReadAudioDecoder(audio);
  model.audio_encoder =
      ReadAudioEncoder(audio.Object("model").Object("params").Object("ddconfig"),
                       audio.Object("preprocessing").Object("stft"), "filter_length", model.audio_decoder);
  model.vocoder = ReadVocoder(root.Object("vocoder"));
  model.scheduler = ReadScheduler(root.Object("scheduler"));
  model.generation = ReadGeneration(root.Object("generation"), model.video_decoder);
  KINORA_RETURN_IF_ERROR(problems.status());
  KINORA_ASSIGN_OR_RETURN(model.family, FamilyOfVersion(model_version));
  if (model.family.empty()) model.family = FamilyOf(model.transformer);
  return model;
}

}  // namespace kinora
