// What a client is told of a clip that this server has not the memory for, whether it is refused when it is created or
// found out only when it is to run.
#ifndef KINORA_SERVER_COMMON_SHAPE_FIT_H_
#define KINORA_SERVER_COMMON_SHAPE_FIT_H_

#include "absl/status/status.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// estimate: one that does not fit. INVALID_ARGUMENT with the fields that are too large and the nearest values that fit,
// and ErrorInfo SHAPE_TOO_LARGE {nearest_width, nearest_height, nearest_frames}, empty where nothing fits.
absl::Status ShapeTooLarge(const v1::Estimate& estimate);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_SHAPE_FIT_H_
