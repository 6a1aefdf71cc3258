#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/reductions.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxMergingBlocks = 1 << 10;  // each merges all parts, then advances by strides of the grid
static_assert(kRangeParts == kThreads, "a thread merges a part");

template <typename T, int kEach>
__global__ void __launch_bounds__(kThreads) SumOfSquaresKernel(Rows x, int64_t width, float* out) {
  const int64_t row = blockIdx.x;
  const T* const from = static_cast<const T*>(x.data) + row * x.stride;
  float sum = 0;
  for (int64_t i = int64_t{threadIdx.x} * kEach; i < width; i += int64_t{blockDim.x} * kEach) {
    float v[kEach];
    Load(from + i, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) sum += v[j] * v[j];
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) out[row] = sum;
}

// The number of parts depends on the number of elements alone.
__host__ __device__ __forceinline__ int64_t PartsOf(const NormalizeRange& a) {
  constexpr int64_t kWorthABlock = 4096;
  return min((a.rows * a.width + kWorthABlock - 1) / kWorthABlock, int64_t{kRangeParts});
}

// Calls f for those of a tensor's `all` pieces that belong to this block.
template <typename F>
__device__ __forceinline__ void ForPart(int64_t all, const F& f) {
  const int64_t each = (all + gridDim.x - 1) / gridDim.x, part = blockIdx.x;
  const int64_t end = min(all, (part + 1) * each);
  for (int64_t i = part * each + threadIdx.x; i < end; i += kThreads) f(i);
}

template <typename T, int kEach>
__global__ void __launch_bounds__(kThreads) RangeOfParts(NormalizeRange a) {
  const T* const x = static_cast<const T*>(a.x.data);
  const int64_t pieces = a.width / kEach;
  double sum = 0;
  float minimum = LoadOne(x), maximum = minimum;  // valid even for an empty part: any element is within the range
  ForPart(a.rows * pieces, [&](int64_t i) {
    float v[kEach];
    Load(x + i / pieces * a.x.stride + i % pieces * kEach, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      sum += v[j];
      minimum = fminf(minimum, v[j]);
      maximum = fmaxf(maximum, v[j]);
    }
  });
  sum = BlockSum<0>(sum);
  minimum = -BlockMax<0>(-minimum);
  maximum = BlockMax<1>(maximum);
  if (threadIdx.x == 0) a.parts[blockIdx.x] = {sum, minimum, maximum};
}

template <typename T, typename Out, int kEach>
__global__ void __launch_bounds__(kThreads) NormalizeByParts(NormalizeRange a) {
  const bool in = threadIdx.x < PartsOf(a);
  const RangePart part = a.parts[in ? threadIdx.x : 0];
  const double sum = BlockSum<0>(in ? part.sum : 0.0);
  const float minimum = -BlockMax<0>(-part.minimum), maximum = BlockMax<1>(part.maximum);
  const auto elements = static_cast<double>(a.rows * a.width);
  const auto mean = static_cast<float>(sum / (elements + a.eps));
  const float factor = a.scale / (maximum - minimum + a.eps);
  const int64_t pieces = a.width / kEach, all = a.rows * pieces, step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += step) {
    const int64_t row = i / pieces, column = i % pieces * kEach;
    float v[kEach];
    Load(static_cast<const T*>(a.x.data) + row * a.x.stride + column, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) v[j] = (v[j] - mean) * factor;
    Store(static_cast<Out*>(a.out.data) + row * a.out.stride + column, v);
  }
}

template <typename T, typename Out, int kEach>
cudaError_t LaunchBoth(const NormalizeRange& a, cudaStream_t stream) {
  const cudaError_t error = Launch(RangeOfParts<T, kEach>, static_cast<unsigned>(PartsOf(a)), kThreads, 0, stream, a);
  if (error != cudaSuccess) return error;
  const int64_t threads = a.rows * a.width / kEach;
  const dim3 grid(static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, kMaxMergingBlocks)));
  return Launch(NormalizeByParts<T, Out, kEach>, grid, kThreads, 0, stream, a);
}

template <typename T, typename Out>
cudaError_t LaunchTyped(const NormalizeRange& a, cudaStream_t stream) {
  if (Vectors(a.x, a.width) && Vectors(a.out, a.width)) return LaunchBoth<T, Out, kVector>(a, stream);
  return LaunchBoth<T, Out, 1>(a, stream);
}

template <typename T>
cudaError_t ByOutput(const NormalizeRange& a, cudaStream_t stream) {
  return a.out.type == Type::kBf16 ? LaunchTyped<T, bf16>(a, stream) : LaunchTyped<T, float>(a, stream);
}

template <typename T>
cudaError_t SumTyped(const Rows& x, int64_t rows, int64_t width, float* out, cudaStream_t stream) {
  const bool vectors = Vectors(x, width);
  const int64_t pieces = vectors ? width / kVector : width;
  const auto threads =
      static_cast<unsigned>(min((pieces + kWarpLanes - 1) / kWarpLanes * kWarpLanes, int64_t{kThreads}));
  const dim3 grid(static_cast<unsigned>(rows));
  if (vectors) return Launch(SumOfSquaresKernel<T, kVector>, grid, threads, 0, stream, x, width, out);
  return Launch(SumOfSquaresKernel<T, 1>, grid, threads, 0, stream, x, width, out);
}

}  // namespace

cudaError_t LaunchSumOfSquares(const Rows& x, int64_t rows, int64_t width, float* out, cudaStream_t stream) {
  if (rows <= 0 || rows > 0x7fffffff || width <= 0) return cudaErrorInvalidValue;
  if (x.data == nullptr || out == nullptr) return cudaErrorInvalidValue;
  return x.type == Type::kBf16 ? SumTyped<bf16>(x, rows, width, out, stream)
                               : SumTyped<float>(x, rows, width, out, stream);
}

cudaError_t LaunchNormalizeRange(const NormalizeRange& a, cudaStream_t stream) {
  if (a.rows <= 0 || a.width <= 0) return cudaErrorInvalidValue;
  if (a.x.data == nullptr || a.out.data == nullptr || a.parts == nullptr) return cudaErrorInvalidValue;
  return a.x.type == Type::kBf16 ? ByOutput<bf16>(a, stream) : ByOutput<float>(a, stream);
}

}  // namespace kinora::kernels
