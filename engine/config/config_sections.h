// Sections of the configuration. Private to the configuration reader.
#ifndef KINORA_ENGINE_CONFIG_CONFIG_SECTIONS_H_
#define KINORA_ENGINE_CONFIG_CONFIG_SECTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config_fields.h"
#include "engine/config/model_config.h"

namespace kinora {

// Returns the family of a model whose files do not say their version.
std::string FamilyOf(const TransformerConfig& transformer);

SchedulerConfig ReadScheduler(const ConfigFields& fields);

// Reads a list like [[1, 3, 5], …].
void ReadDilations(const ConfigFields& fields, std::string_view key, std::vector<std::vector<int64_t>>* dilations);

// Rejects attention blocks in the audio VAE, which no released model has. middle_by_default: default of
// mid_block_add_attention.
void RejectAudioAttention(const ConfigFields& fields, size_t levels, bool middle_by_default);

// Reads the decoder of a video VAE of class "CausalDiffusionVAE"; *common: the values that all decoders have.
DiffusionDecoderConfig ReadDiffusionDecoder(const ConfigFields& vae, VideoDecoderConfig* common);
// Read the video VAE's encoder in each layout. An encoder that cannot run is not an error: the result's `unavailable`
// states the reason.
VideoEncoderConfig ReadLightricksVideoEncoder(const ConfigFields& vae);
VideoEncoderConfig ReadDiffusersVideoEncoder(const ConfigFields& vae);
// Reads the parts of the audio VAE's encoder that it does not share with `decoder`. layers: has in_channels and
// double_z. transform: has the length of the Fourier transform under the key `length`.
AudioEncoderConfig ReadAudioEncoder(const ConfigFields& layers, const ConfigFields& transform, std::string_view length,
                                    const AudioDecoderConfig& decoder);

}  // namespace kinora

#endif  // KINORA_ENGINE_CONFIG_CONFIG_SECTIONS_H_
