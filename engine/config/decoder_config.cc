#include "engine/config/decoder_config.h"

#include "engine/config/encoder_config.h"

namespace kinora {

int64_t VideoDecoderConfig::time_factor() const {
  int64_t factor = 1;
  for (const VideoDecoderBlock& block : blocks) factor *= block.stride[0];
  return factor;
}

int64_t VideoDecoderConfig::space_factor() const {
  int64_t factor = patch_size;
  for (const VideoDecoderBlock& block : blocks) factor *= block.stride[1];
  return factor;
}

int64_t VideoEncoderConfig::time_factor() const {
  int64_t factor = 1;
  for (const VideoEncoderBlock& block : blocks) factor *= block.stride[0];
  return factor;
}

int64_t VideoEncoderConfig::space_factor() const {
  int64_t factor = patch_size;
  for (const VideoEncoderBlock& block : blocks) factor *= block.stride[1];
  return factor;
}

}  // namespace kinora
