// Filters every channel of pictures with one small filter.
#ifndef KINORA_KERNELS_BLUR_H_
#define KINORA_KERNELS_BLUR_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

// out pixel (i, j) = Σ filter[a][b] · x pixel (i · stride − taps/2 + a, j · stride − taps/2 + b), zeros
// outside, summed in float32 in the order of the filter. x: [frames · height · width, channels], out: [frames ·
// ⌈height/stride⌉ · ⌈width/stride⌉, channels], of one type; they must not overlap. Minimum traffic: x and out
// once; pixels that neighbours share are read again from the caches.
struct Blur {
  Rows x, out;
  int64_t frames = 0, height = 0, width = 0, channels = 0;
  const float* filter = nullptr;  // [taps, taps]
  int taps = 1, stride = 1;
};
// Returns cudaErrorInvalidValue if there is nothing to do, an operand is missing, the filter is even, types differ, or
// there are more than 2^31 blocks.
cudaError_t LaunchBlur(const Blur& blur, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_BLUR_H_
