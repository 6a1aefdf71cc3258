// Kernels for sound: functions of single values, and absolute values of complex numbers. float32.
#ifndef KINORA_KERNELS_SOUND_H_
#define KINORA_KERNELS_SOUND_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

enum class Curve : uint8_t {
  kLeakyRelu,  // x < 0 ? a·x : x
  kTanh,
  kClamp,     // min(max(x, a), b)
  kLogFloor,  // ln(max(x, a))
};

// out = curve(x), [rows, width]; out may be x. A NaN stays NaN. Minimum traffic: each once.
struct Pointwise {
  int64_t rows = 0, width = 0;
  Rows x, out;
  Curve curve = Curve::kTanh;
  float a = 0, b = 0;
};
// Returns cudaErrorInvalidValue if there are no elements or they are not float32.
cudaError_t LaunchPointwise(const Pointwise& pointwise, cudaStream_t stream);

// out[row, i] = √(x[row, i]² + x[row, n + i]²); x: [rows, 2·n], out: [rows, n]; they must not overlap. Minimum
// traffic: each once. Not vectorised, since the n of a Fourier transform is odd.
// Returns cudaErrorInvalidValue if there are no elements or they are not float32.
cudaError_t LaunchMagnitude(const Rows& x, const Rows& out, int64_t rows, int64_t n, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_SOUND_H_
