// The length of a job's clip, which the model or a given sound may determine.
#ifndef KINORA_SERVER_REQUEST_CLIP_LENGTH_H_
#define KINORA_SERVER_REQUEST_CLIP_LENGTH_H_

#include <cstdint>
#include <string>

#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// Returns the number of frames of a job's clip; 0 while nothing has determined it.
int32_t FramesOf(const v1::Video& video);

// "121 frames", or what determines them: "1 to 20 s as the model chooses", "as long as the given sound".
std::string LengthText(const v1::Generation& generation);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_CLIP_LENGTH_H_
