// Pieces that the metadata and the diffusers files write alike. For the configuration reader only.
#ifndef KINORA_ENGINE_MODEL_CONFIG_SECTIONS_H_
#define KINORA_ENGINE_MODEL_CONFIG_SECTIONS_H_

#include <string_view>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/config_fields.h"

namespace kinora {

SchedulerConfig ReadScheduler(const ConfigFields& fields);

// [[1, 3, 5], …]
void ReadDilations(const ConfigFields& fields, std::string_view key, std::vector<std::vector<int64_t>>* dilations);

// The audio VAE's optional attention blocks, which no released model has. middle_by_default: what an absent
// mid_block_add_attention means.
void RefuseAudioAttention(const ConfigFields& fields, size_t levels, bool middle_by_default);

// The video VAE's encoder as each layout writes it. What cannot be run is no problem of the file: the result says why.
VideoEncoderConfig ReadLightricksVideoEncoder(const ConfigFields& vae);
VideoEncoderConfig ReadDiffusersVideoEncoder(const ConfigFields& vae);
// The audio VAE's: what it does not share with the decoder. layers: holds in_channels and double_z; transform: holds
// the length of the Fourier transform as `length`.
AudioEncoderConfig ReadAudioEncoder(const ConfigFields& layers, const ConfigFields& transform, std::string_view length,
                                    const AudioDecoderConfig& decoder);

}  // namespace kinora

#endif  // KINORA_ENGINE_MODEL_CONFIG_SECTIONS_H_
