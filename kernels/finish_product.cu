// One thread per eight elements, or per element if rows do not consist of whole aligned vectors.
#include "kernels/device/activations.h"
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/finish_product.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;  // beyond it, threads advance by strides of the grid

__device__ __forceinline__ float Activated(NormActivation activation, float v) {
  if (activation == NormActivation::kSilu) return Silu(v);
  if (activation == NormActivation::kGeluTanh) return GeluTanh(v);
  return v;
}

template <int kCount>
__device__ __forceinline__ void Check(const FinishProduct& a, int64_t row, const float (&v)[kCount]) {
  if (a.bad_row == nullptr) return;
  bool bad = false;
#pragma unroll
  for (int i = 0; i < kCount; ++i) bad |= v[i] - v[i] != 0.0f;  // NaN unless v is finite
  if (bad) atomicMin(a.bad_row, static_cast<int32_t>(row));
}

template <typename Y, typename Out>
__global__ void __launch_bounds__(kThreads) FinishVectors(FinishProduct a) {
  const int64_t pieces = a.width / kVector, all = a.rows * pieces, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = i / pieces, column = i % pieces * kVector;
    Out* const out = static_cast<Out*>(a.out.data) + row * a.out.stride + column;
    float v[kVector], other[kVector];
    Load(static_cast<const Y*>(a.y.data) + row * a.y.stride + column, v);
    if (a.bias != nullptr) {
      Load(a.bias + column, other);
#pragma unroll
      for (int j = 0; j < kVector; ++j) v[j] += other[j];
    }
#pragma unroll
    for (int j = 0; j < kVector; ++j) v[j] = Activated(a.activation, v[j]);
    if (a.add) {
      Load(out, other);
#pragma unroll
      for (int j = 0; j < kVector; ++j) v[j] += other[j];
    }
    Check(a, row, v);
    Store(out, v);
  }
}

template <typename Y, typename Out>
__global__ void __launch_bounds__(kThreads) FinishElements(FinishProduct a) {
  const int64_t all = a.rows * a.width, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = i / a.width, column = i % a.width;
    Out* const out = static_cast<Out*>(a.out.data) + row * a.out.stride + column;
    const float y = LoadOne(static_cast<const Y*>(a.y.data) + row * a.y.stride + column);
    float v[1] = {Activated(a.activation, y + (a.bias != nullptr ? a.bias[column] : 0.0f))};
    if (a.add) v[0] += LoadOne(out);
    Check(a, row, v);
    StoreOne(out, v[0]);
  }
}

template <typename Y, typename Out>
cudaError_t LaunchTyped(const FinishProduct& a, cudaStream_t stream) {
  const bool vectors =
      Vectors(a.y, a.width) && Vectors(a.out, a.width) && reinterpret_cast<uintptr_t>(a.bias) % 16 == 0;
  const int64_t threads = a.rows * a.width / (vectors ? kVector : 1);
  const dim3 grid(static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, kMaxBlocks)));
  if (vectors) return Launch(FinishVectors<Y, Out>, grid, kThreads, 0, stream, a);
  return Launch(FinishElements<Y, Out>, grid, kThreads, 0, stream, a);
}

}  // namespace

cudaError_t LaunchFinishProduct(const FinishProduct& a, cudaStream_t stream) {
  if (a.rows <= 0 || a.width <= 0 || a.y.data == nullptr || a.out.data == nullptr) return cudaErrorInvalidValue;
  if (a.y.type == Type::kF32) {
    return a.out.type == Type::kF32 ? LaunchTyped<float, float>(a, stream) : LaunchTyped<float, bf16>(a, stream);
  }
  return a.out.type == Type::kF32 ? LaunchTyped<bf16, float>(a, stream) : LaunchTyped<bf16, bf16>(a, stream);
}

}  // namespace kinora::kernels
