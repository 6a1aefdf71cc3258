// Pixels become blocks of pixels: channels that move to space and time, and pixels that are repeated.
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
// parts one after the other (out_channels = channels), or with `channels_outer` interleaved: channel c of part p is c ·
// parts + p; then out's channel c is x's channel c mod `channels`. x and out of one type; they must not overlap. With
// `drop_first` the first frame of out is left out. With `add`: out += in float32, rounded once; else bits are kept.
//
// Bytes at least: x and out once, out twice with `add`. That is what interleaved parts take, through shared memory; the
// others are runs that are copied as they lie.
struct DepthToSpace {
  Upscale scale;
  Rows x, out;
  int64_t channels = 0, out_channels = 0;
  bool drop_first = false, channels_outer = false, add = false;
};
// cudaErrorInvalidValue: nothing to do, types that differ, channels that do not fit, more than 16,384 interleaved ones,
// or lines of more than 2^31 elements.
cudaError_t LaunchDepthToSpace(const DepthToSpace& move, cudaStream_t stream);

// Every pixel of out's block is the pixel of x. x: [pixels, channels], out: [pixels · parts, channels], both without
// gaps, of one type; they must not overlap. Bytes at least: x and out once; x is read again for every part, from the
// caches.
struct RepeatNearest {
  Upscale scale;
  const void* x = nullptr;
  void* out = nullptr;
  int64_t channels = 0;
  Type type = Type::kF32;
};
// cudaErrorInvalidValue: nothing to do, or lines of more than 2^31 elements.
cudaError_t LaunchRepeatNearest(const RepeatNearest& repeat, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_UPSCALE_H_
