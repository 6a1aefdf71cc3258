// The video VAE's encoder in the metadata (`vae.encoder_blocks`; ltx_core/model/video_vae/video_vae.py) and in
// diffusers' vae/config.json. A model without a usable encoder can still decode, so nothing here is an error of the
// whole model.
#include "engine/config/config_sections.h"

namespace kinora {
namespace {

using Block = VideoEncoderBlock;

// entry: [name, parameters]; parameters may be just the number of layers.
void AddBlock(const ConfigFields& vae, std::string_view key, const nlohmann::json& entry, VideoEncoderConfig* config) {
  if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()) {
    return vae.Problem(key, "each entry must be [name, parameters]");
  }
  const std::string& name = entry[0].get_ref<const std::string&>();
  const nlohmann::json layers_only = {{"num_layers", entry[1]}};
  const nlohmann::json& values = entry[1].is_object() ? entry[1] : layers_only;
  const ConfigFields p(&values, vae.Path(Cat(key, ".", name)), &vae.problems());
  const int64_t width = config->last_width();
  Block block{.in_channels = width, .out_channels = width};
  if (name == "res_x") {
    if (p.Has("num_layers") && *p.Find("num_layers") == 0) {
      block.layers = 0;
    } else {
      p.Read("num_layers", &block.layers, kMaxLayers);
      if (block.layers == 0) p.Problem("num_layers", "is missing");
    }
    config->blocks.push_back(block);
    return;
  }
  block.kind = Block::Kind::kDownsample;
  if (name == "compress_time_res") {
    block.stride = {2, 1, 1};
  } else if (name == "compress_space_res") {
    block.stride = {1, 2, 2};
  } else if (name == "compress_all_res") {
    block.stride = {2, 2, 2};
  } else {
    return vae.Problem(
        key, Cat(name, " is not supported; res_x, compress_time_res, compress_space_res and compress_all_res are"));
  }
  int64_t multiplier = 2;
  p.Read("multiplier", &multiplier, 64);
  block.out_channels = width * multiplier;
  config->blocks.push_back(block);
}

// Checks constraints between the widths.
void CheckWidths(const ConfigFields& vae, std::string_view key, const VideoEncoderConfig& config) {
  for (const Block& block : config.blocks) {
    if (block.out_channels > kMaxWidth || block.in_channels * block.parts() > kMaxWidth) {
      return vae.Problem(key, Cat("wider than ", kMaxWidth, " channels"));
    }
    if (block.kind == Block::Kind::kResidual) continue;
    if (block.out_channels % block.parts() != 0 || block.in_channels * block.parts() % block.out_channels != 0) {
      return vae.Problem(
          key, Cat(block.in_channels, " channels in blocks of ", block.parts(), " do not become ", block.out_channels));
    }
  }
}

// Reads diffusers' lists: per level its resnets and its downsampler, then the middle block.
void ReadLevels(const ConfigFields& f, VideoEncoderConfig* config) {
  std::vector<int64_t> widths = {256, 512, 1024, 2048}, layers = {4, 6, 6, 2, 2};
  f.Read("block_out_channels", &widths, kMaxWidth);
  f.Read("layers_per_block", &layers, kMaxLayers);
  std::vector<bool> scaling(widths.size(), true);
  f.Read("spatio_temporal_scaling", &scaling, widths.size());
  nlohmann::json types = {"spatial", "temporal", "spatiotemporal", "spatiotemporal"};
  if (f.Has("downsample_type")) types = *f.Find("downsample_type");
  if (layers.size() != widths.size() + 1 || !types.is_array() || types.size() != widths.size()) {
    f.Problem("layers_per_block", "needs one entry more than block_out_channels, and downsample_type as many");
  }
  for (size_t i = 0; f.problems().ok() && i < widths.size(); ++i) {
    if (!scaling[i]) f.Problem("spatio_temporal_scaling", "false is not supported");
    const int64_t width = config->last_width();
    config->blocks.push_back({.in_channels = width, .out_channels = width, .layers = layers[i]});
    Block down{.kind = Block::Kind::kDownsample, .in_channels = width, .out_channels = widths[i], .stride = {2, 2, 2}};
    if (types[i] == "spatial") {
      down.stride = {1, 2, 2};
    } else if (types[i] == "temporal") {
      down.stride = {2, 1, 1};
    } else if (types[i] != "spatiotemporal") {
      f.Problem("downsample_type", "supported: spatial, temporal, spatiotemporal");
    }
    config->blocks.push_back(down);
    CheckWidths(f, "block_out_channels", *config);
  }
  if (f.problems().ok()) {
    config->blocks.push_back(
        {.in_channels = config->last_width(), .out_channels = config->last_width(), .layers = layers.back()});
  }
}

VideoEncoderConfig Finished(VideoEncoderConfig config, const ConfigProblems& problems) {
  config.unavailable = problems.ok() ? "" : std::string(problems.status().message());
  if (!problems.ok()) config.blocks.clear();
  return config;
}

SpatialPadding ReadPadding(const ConfigFields& f, std::string_view key) {
  return f.Choose(key, {"zeros", "reflect"}, 0) == 0 ? SpatialPadding::kZeros : SpatialPadding::kReflect;
}

int64_t VarianceChannels(const ConfigFields& f, int64_t latent_channels) {
  switch (f.Choose("latent_log_var", {"uniform", "constant", "none", "per_channel"}, 0)) {
    case 2:
      return 0;
    case 3:
      return latent_channels;
    default:
      return 1;
  }
}

}  // namespace

// The files of diffusion decoders have the encoder in a section of its own, with other names for the latent's width and
// the blocks.
VideoEncoderConfig ReadLightricksVideoEncoder(const ConfigFields& vae) {
  const bool nested = vae.Has("encoder");
  ConfigProblems problems;
  const ConfigFields own = vae.With(&problems), f = nested ? own.Object("encoder") : own;
  const std::string_view blocks_key = nested && f.Has("blocks") ? "blocks" : "encoder_blocks";
  if (!f.Has(blocks_key)) return {};
  VideoEncoderConfig v;
  own.Choose("_class_name", {"CausalVideoAutoencoder", "CausalDiffusionVAE"}, 0);
  f.Require("dims", 3);
  f.Require("norm_layer", "pixel_norm");
  f.Require("use_quant_conv", false);
  f.Read("in_channels", &v.in_channels, 64);
  own.Read("latent_channels", &v.latent_channels, kMaxWidth);
  if (nested) f.Read("out_channels", &v.latent_channels, kMaxWidth);
  v.base_channels = v.latent_channels;  // the default
  f.Read(nested ? "base_channels" : "encoder_base_channels", &v.base_channels, kMaxWidth);
  f.Read("patch_size", &v.patch_size, 64);
  const bool own_padding = f.Has("spatial_padding_mode");
  v.padding = own_padding ? ReadPadding(f, "spatial_padding_mode") : ReadPadding(own, "encoder_spatial_padding_mode");
  v.variance_channels = VarianceChannels(f, v.latent_channels);
  const nlohmann::json* blocks = f.Find(blocks_key);
  if (!blocks->is_array() || blocks->empty() || blocks->size() > 64) {
    f.Problem(blocks_key, "must be a list of 1 to 64 blocks");
    return Finished(std::move(v), problems);
  }
  for (const nlohmann::json& entry : *blocks) {
    AddBlock(f, blocks_key, entry, &v);
    CheckWidths(f, blocks_key, v);
    if (!problems.ok()) break;
  }
  return Finished(std::move(v), problems);
}

VideoEncoderConfig ReadDiffusersVideoEncoder(const ConfigFields& vae) {
  ConfigProblems problems;
  const ConfigFields f = vae.With(&problems);
  VideoEncoderConfig v;
  f.Require("patch_size_t", 1);
  f.Require("scaling_factor", 1.0);
  f.Require("encoder_causal", true);
  f.Read("in_channels", &v.in_channels, 64);
  f.Read("latent_channels", &v.latent_channels, kMaxWidth);
  v.base_channels = v.latent_channels;  // fixed in the class
  f.Read("patch_size", &v.patch_size, 64);
  v.padding = ReadPadding(f, "encoder_spatial_padding_mode");
  ReadLevels(f, &v);
  return Finished(std::move(v), problems);
}

AudioEncoderConfig ReadAudioEncoder(const ConfigFields& layers, const ConfigFields& transform, std::string_view length,
                                    const AudioDecoderConfig& decoder) {
  ConfigProblems problems;
  const ConfigFields f = layers.With(&problems), t = transform.With(&problems);
  AudioEncoderConfig a{.vae = decoder};
  f.Require("double_z", true);
  f.Read("in_channels", &a.in_channels, 64);
  t.Read(length, &a.n_fft, 1 << 16);
  if (a.n_fft % 2 != 0) t.Problem(length, "must be even");
  if (!decoder.causal) f.Problem("is_causal", "false is not supported");
  a.unavailable = problems.ok() ? "" : std::string(problems.status().message());
  return a;
}

}  // namespace kinora
