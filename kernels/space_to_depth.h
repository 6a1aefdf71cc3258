// Turns blocks of pixels into pixels with more channels.
#ifndef KINORA_KERNELS_SPACE_TO_DEPTH_H_
#define KINORA_KERNELS_SPACE_TO_DEPTH_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// A block of time_factor · height_factor · width_factor pixels of x gives parts · channels values in the order (c,
// time, height, width), or (c, time, width, height); out's channel o is the mean of values o · mean_of … + mean_of
// − 1, in float32. With `repeat_first`, x's first frame is read twice. With `add`: out +=, rounded once. x: [frames
// · height · width, channels], out: [blocks, parts · channels / mean_of]; they must not overlap. Minimum traffic: x
// and out once, out twice with `add`.
struct SpaceToDepth {
  Rows x, out;
  int64_t frames = 0, height = 0, width = 0, channels = 0;  // of x
  int time_factor = 1, height_factor = 1, width_factor = 1;
  int64_t mean_of = 1;
  bool repeat_first = false, width_before_height = false, add = false;
};
// Returns cudaErrorInvalidValue if there is nothing to do, factors do not divide x, an operand is missing, or there are
// more than 2^31 blocks of threads.
cudaError_t LaunchSpaceToDepth(const SpaceToDepth& move, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SPACE_TO_DEPTH_H_
