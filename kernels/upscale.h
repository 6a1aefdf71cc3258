// Turns pixels into blocks of pixels, by moving channels to space and time or by repeating pixels.
#ifndef KINORA_KERNELS_UPSCALE_H_
#define KINORA_KERNELS_UPSCALE_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// x: [frames · height · width] pixels, each of which becomes time_factor · height_factor · width_factor of them.
struct Upscale {
  int64_t frames = 0, height = 0, width = 0;
  int time_factor = 1, height_factor = 1, width_factor = 1;
  int parts() const { return time_factor * height_factor * width_factor; }
};

// Part (t, h, w) of a pixel's channels goes to the pixel (t, h, w) of its block. x: [pixels, parts · channels], the
// parts one after another (out_channels = channels) or, with `channels_outer`, interleaved: channel c of part p is c ·
// parts + p, and out's channel c is x's channel c mod `channels`. x and out have one type and must not overlap. With
// `drop_first`, the first frame of out is left out. With `add`: out += in float32, rounded once; otherwise bits are
// kept.
//
// Minimum traffic: x and out once, out twice with `add`. Interleaved parts reach this by passing through shared memory;
// other parts are copied as runs.
struct DepthToSpace {
  Upscale scale;
  Rows x, out;
  int64_t channels = 0, out_channels = 0;
  bool drop_first = false, channels_outer = false, add = false;
};
// Returns cudaErrorInvalidValue if there is nothing to do, types differ, channels do not fit, more than 16,384 are
// interleaved, or a line has more than 2^31 elements.
cudaError_t LaunchDepthToSpace(const DepthToSpace& move, cudaStream_t stream);

// Every pixel of a block of out is a copy of x's pixel. x: [pixels, channels], out: [pixels · parts, channels], both
// contiguous and of one type; they must not overlap. Minimum traffic: x and out once; x is read again for every part,
// from the caches.
struct RepeatNearest {
  Upscale scale;
  const void* x = nullptr;
  void* out = nullptr;
  int64_t channels = 0;
  Type type = Type::kF32;
};
// Returns cudaErrorInvalidValue if there is nothing to do or a line has more than 2^31 elements.
cudaError_t LaunchRepeatNearest(const RepeatNearest& repeat, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_UPSCALE_H_
