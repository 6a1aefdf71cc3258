#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/lookups.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;  // beyond it, threads advance by strides of the grid

dim3 GridOf(int64_t threads) { return static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, kMaxBlocks)); }

template <typename In, typename Out, int kEach>
__global__ void __launch_bounds__(kThreads) GatherRowsKernel(GatherRows a) {
  const int64_t pieces = a.width / kEach, all = a.rows * pieces, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = i / pieces, column = i % pieces * kEach, id = a.ids[row];
    const bool known = id >= 0 && id < a.table_rows;
    float v[kEach] = {};
    if (known) Load(static_cast<const In*>(a.table.data) + id * a.table.stride + column, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) v[j] = known ? v[j] * a.factor : __uint_as_float(0x7fc00000u);
    Store(static_cast<Out*>(a.out.data) + row * a.out.stride + column, v);
  }
}

__global__ void __launch_bounds__(kThreads)
    TimestepEmbeddingKernel(const float* t, float* out, int64_t out_stride, int64_t rows, int64_t half) {
  const int64_t all = rows * half, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < all; at += step) {
    const int64_t row = at / half, i = at % half;
    // The exponent is rounded to float32 before the exponential, as the reference rounds it.
    const float exponent = -9.210340371976184f * static_cast<float>(i) / static_cast<float>(half);
    const float angle = t[row] * static_cast<float>(exp(static_cast<double>(exponent)));
    out[row * out_stride + i] = cosf(angle);
    out[row * out_stride + half + i] = sinf(angle);
  }
}

template <typename In, typename Out>
cudaError_t LaunchTyped(const GatherRows& a, cudaStream_t stream) {
  if (Vectors(a.table, a.width) && Vectors(a.out, a.width)) {
    return Launch(GatherRowsKernel<In, Out, kVector>, GridOf(a.rows * a.width / kVector), kThreads, 0, stream, a);
  }
  return Launch(GatherRowsKernel<In, Out, 1>, GridOf(a.rows * a.width), kThreads, 0, stream, a);
}

template <typename In>
cudaError_t ByOutput(const GatherRows& a, cudaStream_t stream) {
  return a.out.type == Type::kBf16 ? LaunchTyped<In, bf16>(a, stream) : LaunchTyped<In, float>(a, stream);
}

}  // namespace

cudaError_t LaunchGatherRows(const GatherRows& a, cudaStream_t stream) {
  if (a.rows <= 0 || a.width <= 0 || a.table_rows <= 0) return cudaErrorInvalidValue;
  if (a.table.data == nullptr || a.out.data == nullptr || a.ids == nullptr) return cudaErrorInvalidValue;
  return a.table.type == Type::kBf16 ? ByOutput<bf16>(a, stream) : ByOutput<float>(a, stream);
}

cudaError_t LaunchTimestepEmbedding(const float* t, float* out, int64_t out_stride, int64_t rows, int64_t half,
                                    cudaStream_t stream) {
  if (rows <= 0 || half <= 0 || t == nullptr || out == nullptr) return cudaErrorInvalidValue;
  return Launch(TimestepEmbeddingKernel, GridOf(rows * half), kThreads, 0, stream, t, out, out_stride, rows, half);
}

}  // namespace kinora::kernels
