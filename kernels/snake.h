// The anti-aliased snake of BigVGAN's generators, in one pass over memory. float32.
#ifndef KINORA_KERNELS_SNAKE_H_
#define KINORA_KERNELS_SNAKE_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

inline constexpr int kMaxSnakeTaps = 64;

// Per channel: doubles the rate with the filter `up`, computes y = v + amplitude · sin²(v · frequency), and halves
// the rate with the filter `down`. The ends are repeated before each filter. x, out: [rows, width] without gaps; they
// must not overlap.
// sin² is accurate to 3e-7 for arguments below 1e6, as on the CPU.
//
// For a convolution along time that is computed as a product over rows (im2col.h), LaunchSnakeUnderTaps writes the
// result where the convolution's taps read it: out[i, tap·width + c] = result[first + i − before + tap·dilation,
// c], zero beyond the signal, for i < count.
//
// The doubled signal is kept in shared memory, 64 rows of out at a time. Minimum traffic: x and out once, plus (up_taps
// + down_taps) / 2 rows of x for every 64, which neighbours also read.
struct SnakeTaps {
  int taps = 1, dilation = 1;
  int64_t before = 0;
  int64_t first = 0, count = 0;
  int64_t row_stride = 0;  // of out
};
struct Snake {
  const float* x = nullptr;
  float* out = nullptr;
  int64_t rows = 0, width = 0;
  const float* frequency = nullptr;  // [width]
  const float* amplitude = nullptr;  // [width]
  const float* up = nullptr;         // [up_taps]
  const float* down = nullptr;       // [down_taps]
  int up_taps = 0, down_taps = 0;
};

// Returns cudaErrorInvalidValue if there are no elements, fewer than 2 or more than kMaxSnakeTaps taps, or an odd
// number of taps for `up`.
cudaError_t LaunchSnake(const Snake& snake, cudaStream_t stream);
// Also returns cudaErrorInvalidValue if `under` is invalid or a row of `out` is too short for its taps.
cudaError_t LaunchSnakeUnderTaps(const Snake& snake, const SnakeTaps& under, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SNAKE_H_
