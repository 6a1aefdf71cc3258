// Data tables that translate tensor names between each layout and the canonical names (checkpoint.h).
//   Lightricks single file   model.diffusion_model.transformer_blocks.0.attn1.q_norm.weight
//   diffusers transformer/   transformer_blocks.0.attn1.norm_q.weight
//   canonical                transformer.transformer_blocks.0.attn1.q_norm.weight
#ifndef KINORA_ENGINE_WEIGHTS_KEY_TABLES_H_
#define KINORA_ENGINE_WEIGHTS_KEY_TABLES_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kinora {

// Both return nullopt if the name belongs to no known component.
std::optional<std::string> CanonicalFromSingleFile(std::string_view key);
std::optional<std::string> SingleFileFromCanonical(std::string_view canonical);

// component: the diffusers folder's name (transformer, connectors, vae, audio_vae, vocoder). encoder_levels:
// down_blocks of the video VAE's encoder, 4 in all released models; they determine the index of its last block.
std::string CanonicalFromDiffusers(std::string_view component, std::string_view key, int encoder_levels = 4);
// Returns (component, key).
std::pair<std::string, std::string> DiffusersFromCanonical(std::string_view canonical, int encoder_levels = 4);

// For keys of a Gemma folder or file. Replaces language_model.model., model.language_model. or model. by
// "text_encoder."; moves text_embedding_projection.* to text_projection; prepends "text_encoder." to other keys.
std::string CanonicalFromTextEncoder(std::string_view key);

// For keys of a latent upsampler's file, in every published spelling. The result has no component: "upsampler.conv."
// also for "upsampler.0.", "upsampler.blur_down." also for "upsampler.blur.".
std::string CanonicalFromUpsampler(std::string_view key);

// Whether the tensor occurs in published files but no code reads it: other statistics of the VAEs, the inverse STFT
// basis, Gemma's towers and projectors, its tied output head, the filter of an upsampler by a whole factor; and
// the VAE encoders, which a process that only decodes skips.
bool IsKnownUnread(std::string_view canonical);

// Returns "transformer" for "transformer.patchify_proj.weight".
std::string_view ComponentOf(std::string_view canonical);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_KEY_TABLES_H_
