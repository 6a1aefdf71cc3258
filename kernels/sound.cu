// One thread per eight elements, or per element if rows do not consist of whole aligned vectors.
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/sound.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;  // beyond it, threads advance by strides of the grid

dim3 GridOf(int64_t threads) { return {static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, kMaxBlocks))}; }

// Comparisons are written so that a NaN, for which they are false, stays NaN.
template <Curve kCurve>
__device__ __forceinline__ float Of(float v, float a, float b) {
  if constexpr (kCurve == Curve::kTanh) {
    return tanhf(v);
  } else if constexpr (kCurve == Curve::kLeakyRelu) {
    return v < 0.0f ? v * a : v;
  } else {
    const float raised = v < a ? a : v;
    if constexpr (kCurve == Curve::kLogFloor) {
      return logf(raised);
    } else {
      return raised > b ? b : raised;
    }
  }
}

template <Curve kCurve, bool kVectors>
__global__ void __launch_bounds__(kThreads) PointwiseKernel(Pointwise p) {
  constexpr int kEach = kVectors ? kVector : 1;
  const int64_t pieces = p.width / kEach, all = p.rows * pieces, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = p.rows == 1 ? 0 : i / pieces, column = (i - row * pieces) * kEach;
    const float* const x = static_cast<const float*>(p.x.data) + row * p.x.stride + column;
    float* const out = static_cast<float*>(p.out.data) + row * p.out.stride + column;
    if constexpr (kVectors) {
      float f[kVector];
      Load(x, f);
#pragma unroll
      for (float& v : f) v = Of<kCurve>(v, p.a, p.b);
      Store(out, f);
    } else {
      *out = Of<kCurve>(*x, p.a, p.b);
    }
  }
}

template <Curve kCurve>
cudaError_t LaunchCurve(const Pointwise& p, cudaStream_t stream) {
  if (Vectors(p.x, p.width) && Vectors(p.out, p.width))
    return Launch(PointwiseKernel<kCurve, true>, GridOf(p.rows * p.width / kVector), kThreads, 0, stream, p);
  return Launch(PointwiseKernel<kCurve, false>, GridOf(p.rows * p.width), kThreads, 0, stream, p);
}

__global__ void __launch_bounds__(kThreads) MagnitudeKernel(Rows x, Rows out, int64_t rows, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * n; i += step) {
    const int64_t row = i / n, column = i % n;
    const float* const pair = static_cast<const float*>(x.data) + row * x.stride + column;
    const float real = pair[0], imaginary = pair[n];
    static_cast<float*>(out.data)[row * out.stride + column] = sqrtf(real * real + imaginary * imaginary);
  }
}

bool Valid(const Rows& x, const Rows& out, int64_t rows, int64_t width) {
  return rows > 0 && width > 0 && x.data != nullptr && out.data != nullptr && x.type == Type::kF32 &&
         out.type == Type::kF32;
}

}  // namespace

cudaError_t LaunchPointwise(const Pointwise& pointwise, cudaStream_t stream) {
  Pointwise p = pointwise;
  if (!Valid(p.x, p.out, p.rows, p.width)) return cudaErrorInvalidValue;
  if (p.x.stride == p.width &&
      p.out.stride == p.width) {  // as one row, whose width is more often a multiple of a vector
    p.width *= p.rows;
    p.rows = 1;
    p.x.stride = p.out.stride = p.width;
  }
  switch (p.curve) {
    case Curve::kLeakyRelu:
      return LaunchCurve<Curve::kLeakyRelu>(p, stream);
    case Curve::kTanh:
      return LaunchCurve<Curve::kTanh>(p, stream);
    case Curve::kClamp:
      return LaunchCurve<Curve::kClamp>(p, stream);
    case Curve::kLogFloor:
      return LaunchCurve<Curve::kLogFloor>(p, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchMagnitude(const Rows& x, const Rows& out, int64_t rows, int64_t n, cudaStream_t stream) {
  if (!Valid(x, out, rows, n)) return cudaErrorInvalidValue;
  return Launch(MagnitudeKernel, GridOf(rows * n), kThreads, 0, stream, x, out, rows, n);
}

}  // namespace kinora::kernels
