// Adds up overlapping tiles of a clip with weights, and converts the sums to bytes. Products are rounded individually
// and never fused with a sum, as on a host without fused instructions: equal tiles give equal bytes.
#ifndef KINORA_KERNELS_BLEND_H_
#define KINORA_KERNELS_BLEND_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// A value's weight is the product of these three, in this order.
struct PixelWeights {
  const float* frames = nullptr;   // [frames]
  const float* rows = nullptr;     // [height]
  const float* columns = nullptr;  // [line]
};

// sums += tile · weights. tile: [frames, height, line], where a line is all colours of a row of pixels; sums: starts
// at the value under the tile's first value, in larger frames.
//
// Minimum traffic: the tile once, the sums under it twice.
struct AddTile {
  const float* tile = nullptr;
  float* sums = nullptr;
  PixelWeights weights;
  int64_t frames = 0, height = 0, line = 0;
  int64_t sums_frame = 0, sums_line = 0;  // values from one frame or line of the sums to the next
};
// Returns cudaErrorInvalidValue if there is nothing to do or more than 2^31 − 1 vectors.
cudaError_t LaunchAddTile(const AddTile& add, cudaStream_t stream);

// v = clamp((sums / max(weights, 1e-8) + 1) / 2, 0, 1), rgb8 = floor(255 · v); a NaN gives 0. All [frames, height,
// line].
//
// Minimum traffic: five bytes per value, nine with rgb.
struct FinishRgb8 {
  const float* sums = nullptr;
  float* rgb = nullptr;  // v; may be sums; null: not written
  uint8_t* rgb8 = nullptr;
  int32_t* first_bad = nullptr;  // lowered to the number of the first frame with a NaN
  int32_t first_frame = 0;       // number of sums' first frame
  PixelWeights weights;          // frames null: no division
  int64_t frames = 0, height = 0, line = 0;
};
// Fails as LaunchAddTile does.
cudaError_t LaunchFinishRgb8(const FinishRgb8& finish, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_BLEND_H_
