#include "kernels/blur.h"
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 0x7fffffff;

__host__ __device__ __forceinline__ int64_t Steps(int64_t extent, int stride) { return (extent + stride - 1) / stride; }

template <typename T, int kEach>
__global__ void __launch_bounds__(kThreads) BlurKernel(Blur a) {
  const int64_t pieces = a.channels / kEach, i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t high = Steps(a.height, a.stride), wide = Steps(a.width, a.stride), pixel = i / pieces;
  if (pixel >= a.frames * high * wide) return;
  const int64_t column = i % pieces * kEach;
  const int64_t x = pixel % wide * a.stride - a.taps / 2, y = pixel / wide % high * a.stride - a.taps / 2;
  const int64_t frame = pixel / wide / high * a.height;
  float sums[kEach] = {};
  for (int tap = 0; tap < a.taps * a.taps; ++tap) {
    const int64_t row = y + tap / a.taps, at = x + tap % a.taps;
    if (row < 0 || row >= a.height || at < 0 || at >= a.width) continue;
    float v[kEach];
    Load(static_cast<const T*>(a.x.data) + ((frame + row) * a.width + at) * a.x.stride + column, v);
    const float factor = a.filter[tap];
#pragma unroll
    for (int j = 0; j < kEach; ++j) sums[j] += factor * v[j];
  }
  Store(static_cast<T*>(a.out.data) + pixel * a.out.stride + column, sums);
}

template <typename T, int kEach>
cudaError_t LaunchPieces(const Blur& a, cudaStream_t stream) {
  const int64_t pixels = a.frames * Steps(a.height, a.stride) * Steps(a.width, a.stride);
  const int64_t blocks = (pixels * (a.channels / kEach) + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) return cudaErrorInvalidValue;
  return Launch(BlurKernel<T, kEach>, static_cast<unsigned>(blocks), kThreads, 0, stream, a);
}

template <typename T>
cudaError_t LaunchTyped(const Blur& a, cudaStream_t stream) {
  const bool vectors = Vectors(a.x, a.channels) && Vectors(a.out, a.channels);
  return vectors ? LaunchPieces<T, kVector>(a, stream) : LaunchPieces<T, 1>(a, stream);
}

}  // namespace

cudaError_t LaunchBlur(const Blur& a, cudaStream_t stream) {
  if (a.frames <= 0 || a.height <= 0 || a.width <= 0 || a.channels <= 0) return cudaErrorInvalidValue;
  if (a.x.data == nullptr || a.out.data == nullptr || a.filter == nullptr) return cudaErrorInvalidValue;
  if (a.taps < 1 || a.taps % 2 == 0 || a.stride < 1 || a.x.type != a.out.type) return cudaErrorInvalidValue;
  return a.x.type == Type::kBf16 ? LaunchTyped<bf16>(a, stream) : LaunchTyped<float>(a, stream);
}

}  // namespace kinora::kernels
