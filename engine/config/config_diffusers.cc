// The config.json files of a diffusers folder. Names and defaults: the constructors of LTX2VideoTransformer3DModel,
// LTX2TextConnectors, AutoencoderKLLTX2Video, AutoencoderKLLTX2Audio, LTX2Vocoder and LTX2VocoderWithBWE (diffusers
// 0.42).
#include <algorithm>
#include <set>

#include "engine/base/status_macros.h"
#include "engine/config/config_fields.h"
#include "engine/config/config_reader.h"
#include "engine/config/config_sections.h"
#include "engine/weights/json_text.h"

namespace kinora {
namespace {

// Reads a flag that must be equal for both modalities, as in every released model.
bool SameForBoth(const ConfigFields& f, std::string_view video, std::string_view audio) {
  const bool value = f.Get(video, false);
  if (f.Get(audio, false) != value) f.Problem(audio, Cat("must equal ", video));
  return value;
}

RopeLayout ReadRopeLayout(const ConfigFields& f) {
  return f.Choose("rope_type", {"split", "interleaved"}, 1) == 0 ? RopeLayout::kSplit : RopeLayout::kInterleaved;
}

// Reads one modality. prefix: of its keys.
void ReadModality(const ConfigFields& f, const std::string& prefix, ModalityConfig* m) {
  f.Read(prefix + "in_channels", &m->in_channels, kMaxWidth);
  m->out_channels = m->in_channels;
  f.Read(prefix + "out_channels", &m->out_channels, kMaxWidth);
  f.Read(prefix + "num_attention_heads", &m->heads, kMaxHeads);
  f.Read(prefix + "attention_head_dim", &m->head_dim, kMaxHeadDim);
  f.Read(prefix + "cross_attention_dim", &m->context_width, kMaxWidth);
  f.Read(prefix + "pos_embed_max_pos", &m->max_positions[0], kMaxPosition);
  f.Read(prefix + "ff_bias", &m->ff_bias);
}

TransformerConfig ReadTransformer(const ConfigFields& f) {
  TransformerConfig t;
  for (const char* key : {"patch_size", "patch_size_t", "audio_patch_size", "audio_patch_size_t", "causal_offset"})
    f.Require(key, 1);
  f.Require("activation_fn", "gelu-approximate");
  f.Require("qk_norm", "rms_norm_across_heads");
  f.Require("norm_elementwise_affine", false);
  f.Require("attention_bias", true);
  f.Require("attention_out_bias", true);
  ReadModality(f, "", &t.video);
  ReadModality(f, "audio_", &t.audio);
  f.Read("base_height", &t.video.max_positions[1], kMaxPosition);
  f.Read("base_width", &t.video.max_positions[2], kMaxPosition);
  f.Read("num_layers", &t.layers, kMaxLayers);
  t.gated_attention = SameForBoth(f, "gated_attn", "audio_gated_attn");
  t.cross_attention_adaln = SameForBoth(f, "cross_attn_mod", "audio_cross_attn_mod");
  f.Read("use_prompt_adaln_single", &t.prompt_adaln);
  f.Read("use_prompt_embeddings", &t.caption_projection);
  f.Read("caption_channels", &t.caption_channels, kMaxWidth);
  f.Read("use_keyframes_abs_pos_embedding", &t.keyframes_abs_pos_embedding);
  f.Read("norm_eps", &t.norm_eps, kEpsilon);
  f.Read("rope_theta", &t.rope_theta, kRopeTheta);
  t.rope_layout = ReadRopeLayout(f);
  t.rope_double_precision = f.Get("rope_double_precision", true);
  f.Read("timestep_scale_multiplier", &t.timestep_scale, kTimestepScale);
  t.av_timestep_scale = 1000.0;
  f.Read("cross_attn_timestep_scale_multiplier", &t.av_timestep_scale, kTimestepScale);
  return t;
}

void ReadConnectorStream(const ConfigFields& f, std::string_view prefix, ConnectorStreamConfig* stream) {
  f.Read(Cat(prefix, "_connector_num_attention_heads"), &stream->heads, kMaxHeads);
  f.Read(Cat(prefix, "_connector_attention_head_dim"), &stream->head_dim, kMaxHeadDim);
  f.Read(Cat(prefix, "_connector_num_layers"), &stream->layers, kMaxLayers);
  f.Read(Cat(prefix, "_connector_num_learnable_registers"), &stream->registers, kMaxWidth);
}

ConnectorConfig ReadConnector(const ConfigFields& f) {
  ConnectorConfig c;
  f.Require("causal_temporal_positioning", false);
  f.Read("caption_channels", &c.text_width, kMaxWidth);
  f.Read("text_proj_in_factor", &c.text_states, kMaxLayers);
  ReadConnectorStream(f, "video", &c.video);
  ReadConnectorStream(f, "audio", &c.audio);
  c.gated_attention = SameForBoth(f, "video_gated_attn", "audio_gated_attn");
  f.Read("per_modality_projections", &c.per_modality_projections);
  f.Read("proj_bias", &c.projection_bias);
  if (c.per_modality_projections) {
    f.RequireSame("video_hidden_dim", c.video.width(), "the video connector's width");
    f.RequireSame("audio_hidden_dim", c.audio.width(), "the audio connector's width");
  }
  c.rope_max_position = 4096;
  f.Read("connector_rope_base_seq_len", &c.rope_max_position, kMaxPosition);
  f.Read("rope_theta", &c.rope_theta, kRopeTheta);
  c.rope_layout = ReadRopeLayout(f);
  c.rope_double_precision = f.Get("rope_double_precision", true);
  return c;
}

// The decoder's lists, ordered from the pixels to the latent, opposite to execution order. Only `types` is in execution
// order.
struct DecoderLists {
  std::vector<int64_t> widths = {256, 512, 1024}, layers = {5, 5, 5, 5}, factors = {2, 2, 2};
  std::vector<bool> residual;
  nlohmann::json types;
};

// Returns false, after adding a problem, if the lists do not fit together.
bool ReadDecoderLists(const ConfigFields& f, DecoderLists* lists) {
  f.Read("decoder_block_out_channels", &lists->widths, kMaxWidth);
  f.Read("decoder_layers_per_block", &lists->layers, kMaxLayers);
  f.Read("upsample_factor", &lists->factors, 64);
  const size_t ups = lists->widths.size();
  if (lists->layers.size() != ups + 1 || lists->factors.size() != ups) {
    f.Problem("decoder_layers_per_block",
              "needs one entry more than decoder_block_out_channels, and upsample_factor as many");
    return false;
  }
  std::vector<bool> scaling(ups, true), noise(ups + 1, false);
  lists->residual.assign(ups, true);
  f.Read("upsample_residual", &lists->residual, ups);
  f.Read("decoder_spatio_temporal_scaling", &scaling, ups);
  f.Read("decoder_inject_noise", &noise, ups + 1);
  if (std::count(scaling.begin(), scaling.end(), false) > 0)
    f.Problem("decoder_spatio_temporal_scaling", "false is not supported");
  if (std::count(noise.begin(), noise.end(), true) > 0) f.Problem("decoder_inject_noise", "true is not supported");
  lists->types = std::vector<std::string>(ups, "spatiotemporal");
  if (f.Has("upsample_type")) lists->types = *f.Find("upsample_type");
  if (lists->types.is_array() && lists->types.size() == ups) return true;
  f.Problem("upsample_type", Cat("must be a list of ", ups));
  return false;
}

std::array<int64_t, 3> ReadStride(const ConfigFields& f, const nlohmann::json& type) {
  if (type == "spatial") return {1, 2, 2};
  if (type == "temporal") return {2, 1, 1};
  if (type != "spatiotemporal") f.Problem("upsample_type", "supported: spatial, temporal, spatiotemporal");
  return {2, 2, 2};
}

std::vector<VideoDecoderBlock> ReadDecoderBlocks(const ConfigFields& f) {
  using Block = VideoDecoderBlock;
  DecoderLists lists;
  if (!ReadDecoderLists(f, &lists)) return {};
  const auto& [widths, layers, factors, residual, types] = lists;
  const size_t ups = widths.size();
  int64_t width = widths.back();
  std::vector<Block> blocks = {{.in_channels = width, .out_channels = width, .layers = layers.back()}};
  for (size_t i = 0; i < ups; ++i) {
    const size_t stored = ups - 1 - i;
    const int64_t out = widths[stored] / factors[stored];
    if (width != widths[stored] || widths[stored] % factors[stored] != 0) {
      f.Problem("decoder_block_out_channels", Cat("entry ", stored, " is ", widths[stored], ", but ", width,
                                                  " channels arrive there, and upsample_factor must divide it"));
      return blocks;
    }
    blocks.push_back(
        {.kind = Block::Kind::kUpsample, .in_channels = width, .out_channels = out, .residual = residual[stored]});
    blocks.back().stride = ReadStride(f, types[i]);
    blocks.push_back({.in_channels = out, .out_channels = out, .layers = layers[stored]});
    width = out;
  }
  return blocks;
}

VideoDecoderConfig ReadVideoDecoder(const ConfigFields& f) {
  VideoDecoderConfig v;
  f.Require("timestep_conditioning", false);
  f.Require("patch_size_t", 1);
  f.Require("scaling_factor", 1.0);
  f.Read("latent_channels", &v.latent_channels, kMaxWidth);
  f.Read("out_channels", &v.out_channels, 64);
  f.Read("patch_size", &v.patch_size, 64);
  v.causal = f.Get("decoder_causal", true);
  v.padding = f.Choose("decoder_spatial_padding_mode", {"zeros", "reflect"}, 1) == 0 ? SpatialPadding::kZeros
                                                                                     : SpatialPadding::kReflect;
  v.blocks = ReadDecoderBlocks(f);
  return v;
}

AudioDecoderConfig ReadAudioDecoder(const ConfigFields& f) {
  AudioDecoderConfig a;
  f.Require("norm_type", "pixel");
  f.Require("causality_axis", "height");
  f.Read("base_channels", &a.channels, kMaxWidth);
  f.Read("output_channels", &a.out_channels, 64);
  f.Read("ch_mult", &a.multipliers, 64);
  f.Read("num_res_blocks", &a.resnets, kMaxLayers);
  f.Read("latent_channels", &a.latent_channels, kMaxWidth);
  f.Read("mel_bins", &a.mel_bins, kMaxWidth);
  f.Read("sample_rate", &a.sample_rate, kMaxSampleRate);
  f.Read("mel_hop_length", &a.hop_length, kMaxSampleRate);
  f.Read("is_causal", &a.causal);
  RejectAudioAttention(f, a.multipliers.size(), /*middle_by_default=*/false);
  return a;
}

// prefix: "" or "bwe_". `defaults` holds the values of absent fields.
GeneratorConfig ReadGenerator(const ConfigFields& f, const std::string& prefix, GeneratorConfig defaults) {
  using Activation = GeneratorConfig::Activation;
  using Final = GeneratorConfig::Final;
  GeneratorConfig g = std::move(defaults);
  f.Read(prefix + "in_channels", &g.in_channels, kMaxWidth);
  f.Read(prefix + "hidden_channels", &g.hidden_channels, kMaxWidth);
  f.Read(prefix + "out_channels", &g.out_channels, 64);
  f.Read(prefix + "upsample_kernel_sizes", &g.upsample_kernels, 256);
  f.Read(prefix + "upsample_factors", &g.upsample_rates, 64);
  f.Read(prefix + "resnet_kernel_sizes", &g.resblock_kernels, 256);
  ReadDilations(f, prefix + "resnet_dilations", &g.resblock_dilations);
  constexpr Activation kActivations[] = {Activation::kLeakyRelu, Activation::kSnake, Activation::kSnakeBeta};
  g.activation = kActivations[f.Choose(prefix + "act_fn", {"leaky_relu", "snake", "snakebeta"},
                                       static_cast<size_t>(g.activation))];
  f.Read(prefix + "leaky_relu_negative_slope", &g.leaky_slope, kSlope);
  f.Require(prefix + "antialias", g.anti_aliased());
  f.Require(prefix + "antialias_ratio", 2);
  f.Require(prefix + "antialias_kernel_size", 12);
  if (f.Has(prefix + "final_act_fn")) {
    g.final_activation = f.Choose(prefix + "final_act_fn", {"tanh", "clamp"}, 0) == 0 ? Final::kTanh : Final::kClamp;
  }
  f.Read(prefix + "final_bias", &g.final_bias);
  return g;
}

VocoderConfig ReadVocoder(const ConfigFields& f) {
  VocoderConfig v;
  using Activation = GeneratorConfig::Activation;
  const std::string_view by_fields = f.Has("bwe_hidden_channels") ? "LTX2VocoderWithBWE" : "LTX2Vocoder";
  if (f.Get<std::string>("_class_name", std::string(by_fields)) != std::string_view("LTX2VocoderWithBWE")) {
    f.Require("_class_name", "LTX2Vocoder");
    v.base = ReadGenerator(f, "", {});
    f.Read("output_sampling_rate", &v.base_rate, kMaxSampleRate);
    v.output_rate = v.base_rate;
    return v;
  }
  // The file specifies no final activation, and diffusers applies none. Lightricks' code clamps the base waveform.
  v.base = ReadGenerator(f, "",
                         {.activation = Activation::kSnakeBeta,
                          .final_activation = GeneratorConfig::Final::kClamp,
                          .hidden_channels = 1536,
                          .upsample_rates = {5, 2, 2, 2, 2, 2},
                          .upsample_kernels = {11, 4, 4, 4, 4, 4},
                          .final_bias = false});
  BandwidthExtensionConfig extension;
  extension.generator = ReadGenerator(f, "bwe_",
                                      {.activation = Activation::kSnakeBeta,
                                       .final_activation = GeneratorConfig::Final::kNone,
                                       .hidden_channels = 512,
                                       .upsample_kernels = {12, 11, 4, 4, 4},
                                       .final_bias = false});
  f.Read("filter_length", &extension.n_fft, 1 << 16);
  f.Read("hop_length", &extension.hop_length, 1 << 16);
  f.RequireSame("window_length", extension.n_fft, "filter_length");
  f.Read("num_mel_channels", &extension.mel_bins, 1 << 16);
  v.base_rate = 16000;
  v.output_rate = 48000;
  f.Read("input_sampling_rate", &v.base_rate, kMaxSampleRate);
  f.Read("output_sampling_rate", &v.output_rate, kMaxSampleRate);
  v.extension = std::move(extension);
  return v;
}

// Checks the values of the VAEs that the transformer's file repeats.
void CheckRepeats(const ConfigFields& transformer, const ModelConfig& model) {
  const nlohmann::json factors = {model.video_decoder.time_factor(), model.video_decoder.space_factor(),
                                  model.video_decoder.space_factor()};
  if (!model.video_decoder.absent()) transformer.Require("vae_scale_factors", factors);
  transformer.RequireSame("audio_scale_factor", model.audio_decoder.factor(), "the audio VAE's");
  transformer.RequireSame("audio_sampling_rate", model.audio_decoder.sample_rate, "the audio VAE's");
  transformer.RequireSame("audio_hop_length", model.audio_decoder.hop_length, "the audio VAE's");
}

}  // namespace

absl::StatusOr<ModelConfig> ParseDiffusersConfigs(const std::map<std::string, std::string, std::less<>>& components) {
  std::map<std::string, nlohmann::json, std::less<>> json;
  for (const auto& [component, text] : components) {
    if (component == "text_encoder") continue;
    KINORA_ASSIGN_OR_RETURN(json[component], ParseJsonText(text, Cat(component, " configuration")));
  }
  ConfigProblems problems;
  const auto fields = [&](std::string_view component) {
    const auto it = json.find(component);
    return ConfigFields(it == json.end() ? nullptr : &it->second, std::string(component), &problems);
  };
  ModelConfig model;
  model.transformer = ReadTransformer(fields("transformer"));
  model.connector = ReadConnector(fields("connectors"));
  if (json.contains("vae")) {
    model.video_decoder = ReadVideoDecoder(fields("vae"));
    model.video_encoder = ReadDiffusersVideoEncoder(fields("vae"));
  }
  model.audio_decoder = ReadAudioDecoder(fields("audio_vae"));
  model.audio_encoder = ReadAudioEncoder(fields("audio_vae"), fields("audio_vae"), "n_fft", model.audio_decoder);
  model.vocoder = ReadVocoder(fields("vocoder"));
  model.scheduler = ReadScheduler(fields("scheduler"));
  if (problems.ok()) CheckRepeats(fields("transformer"), model);
  KINORA_RETURN_IF_ERROR(problems.status());
  model.family = FamilyOf(model.transformer);
  return model;
}

}  // namespace kinora
