// Overlapping tiles of a clip added up under weights, and the sums as bytes. The products are rounded one by one and
// never fused with a sum, as a host without such instructions computes them: equal tiles give equal bytes.
#ifndef KINORA_KERNELS_BLEND_H_
#define KINORA_KERNELS_BLEND_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// The weight of a value is the product of three, in this order.
struct PixelWeights {
  const float* frames = nullptr;   // [frames]
  const float* rows = nullptr;     // [height]
  const float* columns = nullptr;  // [line]
};

// sums += tile · weights. tile: [frames, height, line], a line being all colours of a row of pixels; sums: the value
// under the tile's first, of larger frames.
//
// Bytes at least: the tile once, the sums under it twice.
struct AddTile {
  const float* tile = nullptr;
  float* sums = nullptr;
  PixelWeights weights;
  int64_t frames = 0, height = 0, line = 0;
  int64_t sums_frame = 0, sums_line = 0;  // values from one frame or line of the sums to the next
};
// cudaErrorInvalidValue: nothing to do, or more than 2^31 − 1 vectors.
cudaError_t LaunchAddTile(const AddTile& add, cudaStream_t stream);

// v = clamp((sums / max(weights, 1e-8) + 1) / 2, 0, 1), rgb8 = floor(255 · v); a NaN gives 0. All [frames, height,
// line].
//
// Bytes at least: five per value, nine with rgb.
struct FinishRgb8 {
  const float* sums = nullptr;
  float* rgb = nullptr;  // v; may be sums; null: not wanted
  uint8_t* rgb8 = nullptr;
  int32_t* first_bad = nullptr;  // becomes the number of the first frame with a NaN, if that is less
  int32_t first_frame = 0;       // of the sums
  PixelWeights weights;          // frames null: nothing is divided
  int64_t frames = 0, height = 0, line = 0;
};
// cudaErrorInvalidValue: as above.
cudaError_t LaunchFinishRgb8(const FinishRgb8& finish, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_BLEND_H_
