// How tensors are called in each layout, as data tables, and the canonical names in between
// (checkpoint.h).
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

// Empty if the key belongs to no component that Kinora knows.
std::optional<std::string> CanonicalFromSingleFile(std::string_view key);
std::optional<std::string> SingleFileFromCanonical(std::string_view canonical);

// component: the diffusers folder's name (transformer, connectors, vae, audio_vae, vocoder). encoder_levels:
// down_blocks of the video VAE's encoder, 4 in all released models; the index of its last block depends on it.
std::string CanonicalFromDiffusers(std::string_view component, std::string_view key, int encoder_levels = 4);
// (component, key)
std::pair<std::string, std::string> DiffusersFromCanonical(std::string_view canonical, int encoder_levels = 4);

// Keys of a Gemma-3 folder or file: "text_encoder." and what follows language_model.model. | model.language_model. |
// model. ; text_embedding_projection.* goes to text_projection; anything else keeps its name under text_encoder.
std::string CanonicalFromTextEncoder(std::string_view key);

// Keys of a latent upsampler's file, in every published spelling, without a component: "upsampler.conv." also for
// "upsampler.0.", "upsampler.blur_down." also for "upsampler.blur.".
std::string CanonicalFromUpsampler(std::string_view key);

// Tensors that published files hold in a component and no code reads: other statistics of the VAEs, the inverse STFT
// basis, the vision tower and projector of Gemma, its tied output head, the filter of an upsampler by a whole
// factor; and the VAE encoders, which a process that only decodes skips.
bool IsKnownUnread(std::string_view canonical);

// "transformer" of "transformer.patchify_proj.weight".
std::string_view ComponentOf(std::string_view canonical);

}  // namespace kinora

#endif  // KINORA_ENGINE_WEIGHTS_KEY_TABLES_H_
