#include "engine/weights/key_tables.h"

#include <charconv>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/strings.h"

namespace kinora {
namespace {

struct Rename {  // in both directions; the first matching row wins
  std::string_view from;
  std::string_view to;
};

constexpr Rename kSingleFilePrefixes[] = {
    {"model.diffusion_model.video_embeddings_connector.", "connectors.video_embeddings_connector."},
    {"model.diffusion_model.audio_embeddings_connector.", "connectors.audio_embeddings_connector."},
    {"model.diffusion_model.", "transformer."},
    {"text_embedding_projection.", "text_projection."},
    {"vae.", "vae."},
    {"audio_vae.", "audio_vae."},
    {"vocoder.", "vocoder."},
    {"duration_head.", "duration_head."},
    {"encoder.", "vae.encoder."},  // a video VAE in a separate file
    {"decoder.", "vae.decoder."},
    {"per_channel_statistics.", "vae.per_channel_statistics."},
};

// Renames a whole dotted segment anywhere in a component's keys.
struct SegmentRename {
  std::string_view component;
  std::string_view diffusers;
  std::string_view canonical;
};
constexpr SegmentRename kSegments[] = {
    {"transformer", "proj_in", "patchify_proj"},
    {"transformer", "audio_proj_in", "audio_patchify_proj"},
    {"transformer", "time_embed", "adaln_single"},
    {"transformer", "audio_time_embed", "audio_adaln_single"},
    {"transformer", "prompt_adaln", "prompt_adaln_single"},
    {"transformer", "audio_prompt_adaln", "audio_prompt_adaln_single"},
    {"transformer", "av_cross_attn_video_scale_shift", "av_ca_video_scale_shift_adaln_single"},
    {"transformer", "av_cross_attn_audio_scale_shift", "av_ca_audio_scale_shift_adaln_single"},
    {"transformer", "av_cross_attn_video_a2v_gate", "av_ca_a2v_gate_adaln_single"},
    {"transformer", "av_cross_attn_audio_v2a_gate", "av_ca_v2a_gate_adaln_single"},
    {"transformer", "video_a2v_cross_attn_scale_shift_table", "scale_shift_table_a2v_ca_video"},
    {"transformer", "audio_a2v_cross_attn_scale_shift_table", "scale_shift_table_a2v_ca_audio"},
    {"transformer", "norm_q", "q_norm"},
    {"transformer", "norm_k", "k_norm"},
    {"connectors", "video_connector", "video_embeddings_connector"},
    {"connectors", "audio_connector", "audio_embeddings_connector"},
    {"connectors", "transformer_blocks", "transformer_1d_blocks"},
    {"connectors", "norm_q", "q_norm"},
    {"connectors", "norm_k", "k_norm"},
    {"vocoder", "upsamplers", "ups"},
    {"vocoder", "resnets", "resblocks"},
    {"vocoder", "conv_in", "conv_pre"},
    {"vocoder", "conv_out", "conv_post"},
    {"vocoder", "act_out", "act_post"},
};

// Renames the start of a key. "#" in `diffusers` stands for an index K; in `canonical`, for times · K + plus. Both
// sides are "COMPONENT." + key, because the projections change their component.
struct PrefixRename {
  std::string_view diffusers;
  std::string_view canonical;
  int times = 0;
  int plus = 0;
};
constexpr PrefixRename kPrefixes[] = {
    {"connectors.text_proj_in.", "text_projection.aggregate_embed."},
    {"connectors.video_text_proj_in.", "text_projection.video_aggregate_embed."},
    {"connectors.audio_text_proj_in.", "text_projection.audio_aggregate_embed."},
    {"vae.latents_mean", "vae.per_channel_statistics.mean-of-means"},
    {"vae.latents_std", "vae.per_channel_statistics.std-of-means"},
    {"audio_vae.latents_mean", "audio_vae.per_channel_statistics.mean-of-means"},
    {"audio_vae.latents_std", "audio_vae.per_channel_statistics.std-of-means"},
    {"vae.decoder.mid_block.resnets.", "vae.decoder.up_blocks.0.res_blocks."},
    {"vae.decoder.mid_block.time_embedder.", "vae.decoder.up_blocks.0.time_embedder."},
    {"vae.decoder.up_blocks.#.upsamplers.0.conv.", "vae.decoder.up_blocks.#.conv.", 2, 1},
    {"vae.decoder.up_blocks.#.resnets.", "vae.decoder.up_blocks.#.res_blocks.", 2, 2},
    {"vae.decoder.up_blocks.#.time_embedder.", "vae.decoder.up_blocks.#.time_embedder.", 2, 2},
    {"vae.decoder.time_embedder.", "vae.decoder.last_time_embedder."},
    {"vae.decoder.scale_shift_table", "vae.decoder.last_scale_shift_table"},
    {"vae.encoder.down_blocks.#.downsamplers.0.conv.", "vae.encoder.down_blocks.#.conv.", 2, 1},
    {"vae.encoder.down_blocks.#.resnets.", "vae.encoder.down_blocks.#.res_blocks.", 2, 0},
};

constexpr std::string_view kTextEncoderPrefixes[] = {"language_model.model.", "model.language_model.", "model."};

constexpr std::string_view kUnread[] = {
    // prefixes of canonical keys
    "vae.encoder.",
    "vae.per_channel_statistics.mean-of-stds",  // and mean-of-stds_over_std-of-means
    "vae.per_channel_statistics.channel",
    "vae.decoder.type_emb",  // of the diffusion decoder: marks keyframes (ltx_core 1.3.0)
    "vae.decoder.coarse_",
    "audio_vae.encoder.",
    "audio_vae.per_channel_statistics.mean-of-stds",
    "audio_vae.per_channel_statistics.channel",
    "vocoder.mel_stft.stft_fn.inverse_basis",
    "spatial_upsampler.upsampler.blur_down.",  // unused if the factor is whole
    "text_encoder.vision_tower.",
    "text_encoder.vision_model.",
    "text_encoder.multi_modal_projector.",
    "text_encoder.audio_projector.",
    "text_encoder.vision_embedder.",
    "text_encoder.embed_vision.",
    "text_encoder.embed_audio.",
    "text_encoder.language_model.lm_head.",
    "text_encoder.lm_head.",
    "text_encoder.spiece_model",  // tokenizer.model as bytes, in single-file encoders
    "text_encoder.tokenizer_json",
    "text_encoder.hf_asset__",  // settings of the tokenizer, and a chat template
};

// The number in `key` at the "#" of `pattern`, 0 without a "#", and the rest of `key` after the pattern.
struct Match {
  int index = 0;
  std::string_view rest;
};
std::optional<Match> MatchPrefix(std::string_view key, std::string_view pattern) {
  const size_t hash = pattern.find('#');
  if (!key.starts_with(pattern.substr(0, hash))) return std::nullopt;
  Match match;
  key.remove_prefix(std::min(hash, pattern.size()));
  if (hash != std::string_view::npos) {
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), match.index);
    if (error != std::errc() || match.index < 0 || match.index > 1'000'000) return std::nullopt;
    key.remove_prefix(end - key.data());
    if (!key.starts_with(pattern.substr(hash + 1))) return std::nullopt;
    key.remove_prefix(pattern.size() - hash - 1);
  }
  match.rest = key;
  return match;
}

std::string Fill(std::string_view pattern, int index, std::string_view rest) {
  const size_t hash = pattern.find('#');
  if (hash == std::string_view::npos) return Cat(pattern, rest);
  return Cat(pattern.substr(0, hash), index, pattern.substr(hash + 1), rest);
}

std::string RenameSegments(std::string_view component, std::string_view key, std::string_view SegmentRename::*from,
                           std::string_view SegmentRename::*to) {
  std::vector<std::string> segments = absl::StrSplit(AbslView(key), '.');
  for (std::string& segment : segments) {
    for (const SegmentRename& rule : kSegments) {
      if (rule.component == component && segment == rule.*from) {
        segment = rule.*to;
        break;
      }
    }
  }
  return absl::StrJoin(segments, ".");
}

std::string EncoderMiddle(int levels) { return Cat("vae.encoder.down_blocks.", 2 * levels, ".res_blocks."); }
constexpr std::string_view kDiffusersEncoderMiddle = "vae.encoder.mid_block.resnets.";
constexpr std::string_view kFilter = ".downsample.filter";  // the only name of the vocoder that gains a segment
constexpr std::string_view kLowpassFilter = ".downsample.lowpass.filter";

}  // namespace

std::optional<std::string> CanonicalFromSingleFile(std::string_view key) {
  for (const Rename& rule : kSingleFilePrefixes) {
    if (key.starts_with(rule.from)) return Cat(rule.to, key.substr(rule.from.size()));
  }
  return std::nullopt;
}

std::optional<std::string> SingleFileFromCanonical(std::string_view canonical) {
  for (const Rename& rule : kSingleFilePrefixes) {
    if (canonical.starts_with(rule.to)) return Cat(rule.from, canonical.substr(rule.to.size()));
  }
  return std::nullopt;
}

std::string CanonicalFromDiffusers(std::string_view component, std::string_view key, int encoder_levels) {
  const std::string whole = Cat(component, ".", key);
  if (whole.starts_with(kDiffusersEncoderMiddle)) {
    return Cat(EncoderMiddle(encoder_levels), whole.substr(kDiffusersEncoderMiddle.size()));
  }
  for (const PrefixRename& rule : kPrefixes) {
    if (const auto match = MatchPrefix(whole, rule.diffusers)) {
      return Fill(rule.canonical, rule.times * match->index + rule.plus, match->rest);
    }
  }
  std::string canonical =
      Cat(component, ".", RenameSegments(component, key, &SegmentRename::diffusers, &SegmentRename::canonical));
  if (component == "vocoder" && canonical.ends_with(kFilter)) {
    canonical.replace(canonical.size() - kFilter.size(), kFilter.size(), kLowpassFilter);
  }
  return canonical;
}

std::pair<std::string, std::string> DiffusersFromCanonical(std::string_view canonical, int encoder_levels) {
  const auto split = [](std::string_view whole) {
    const std::string_view component = ComponentOf(whole);
    return std::pair(std::string(component), std::string(whole.substr(component.size() + 1)));
  };
  const std::string middle = EncoderMiddle(encoder_levels);
  if (canonical.starts_with(middle)) return split(Cat(kDiffusersEncoderMiddle, canonical.substr(middle.size())));
  for (const PrefixRename& rule : kPrefixes) {
    const auto match = MatchPrefix(canonical, rule.canonical);
    if (!match || (rule.times > 0 && (match->index < rule.plus || (match->index - rule.plus) % rule.times != 0)))
      continue;
    const int index = rule.times > 0 ? (match->index - rule.plus) / rule.times : 0;
    return split(Fill(rule.diffusers, index, match->rest));
  }
  auto [component, key] = split(canonical);
  if (component == "vocoder" && key.ends_with(kLowpassFilter)) {
    key.replace(key.size() - kLowpassFilter.size(), kLowpassFilter.size(), kFilter);
  }
  return {component, RenameSegments(component, key, &SegmentRename::canonical, &SegmentRename::diffusers)};
}

std::string CanonicalFromTextEncoder(std::string_view key) {
  if (key.starts_with("text_embedding_projection.")) return *CanonicalFromSingleFile(key);
  for (std::string_view prefix : kTextEncoderPrefixes) {
    if (!key.starts_with(prefix)) continue;
    return Cat("text_encoder.", key.substr(prefix.size()));
  }
  return Cat("text_encoder.", key);
}

std::string CanonicalFromUpsampler(std::string_view key) {
  constexpr Rename kSpellings[] = {{"upsampler.0.", "upsampler.conv."}, {"upsampler.blur.", "upsampler.blur_down."}};
  for (const Rename& rule : kSpellings) {
    if (key.starts_with(rule.from)) return Cat(rule.to, key.substr(rule.from.size()));
  }
  return std::string(key);
}

bool IsKnownUnread(std::string_view canonical) {
  for (std::string_view prefix : kUnread) {
    if (canonical.starts_with(prefix)) return true;
  }
  return false;
}

std::string_view ComponentOf(std::string_view canonical) { return canonical.substr(0, canonical.find('.')); }

}  // namespace kinora
