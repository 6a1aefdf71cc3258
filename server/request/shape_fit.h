// The error for a clip that does not fit this server's memory, whether that is found when the job is created or when it
// is about to run.
#ifndef KINORA_SERVER_REQUEST_SHAPE_FIT_H_
#define KINORA_SERVER_REQUEST_SHAPE_FIT_H_

#include "absl/status/status.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

// `estimate` must be one that does not fit. Returns INVALID_ARGUMENT with the fields that are too large and the nearest
// values that fit, and ErrorInfo SHAPE_TOO_LARGE {nearest_width, nearest_height, nearest_frames}, without metadata if
// nothing fits.
absl::Status ShapeTooLarge(const v1::Estimate& estimate);

}  // namespace kinora

#endif  // KINORA_SERVER_REQUEST_SHAPE_FIT_H_
