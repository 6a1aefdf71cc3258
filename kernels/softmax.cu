// One warp per short row, one block per long row. The first pass keeps a running maximum and the sum relative to it
// (Milakov & Gimelshein 2018), the second writes.
#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/softmax.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kShortRow = 2048;  // eight vectors per lane of a warp
constexpr float kNone = -3.0e38f;    // below any logit

// The keys [begin, end) that a query sees.
struct Seen {
  int64_t begin, end;
};

__device__ __forceinline__ Seen Sees(const Softmax& a, int64_t query) {
  if (!a.causal) return {0, a.keys};
  return {a.window > 0 ? max(static_cast<int64_t>(0), query - a.window + 1) : 0, min(a.keys, query + 1)};
}

__device__ __forceinline__ void Logits(const Softmax& a, const float* row, const float* bias, const Seen& seen,
                                       int64_t column, float (&f)[kVector]) {
  Load(row + column, f);
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    const bool counts = column + j >= seen.begin && column + j < seen.end;
    f[j] = counts ? fmaf(f[j], a.scale, bias != nullptr ? bias[column + j] : 0.0f) : kNone;
  }
}

// Reductions over the threads that share a row.
template <bool kBlock>
__device__ __forceinline__ float Greatest(float v) {
  if constexpr (kBlock) return BlockMax<0>(v);
  return WarpMax(v);
}
template <bool kBlock>
__device__ __forceinline__ float Total(float v) {
  if constexpr (kBlock) return BlockSum<0>(v);
  return WarpSum(v);
}

template <typename Out, bool kBlock>
__global__ void __launch_bounds__(kThreads) SoftmaxRows(Softmax a) {
  constexpr int kLanes = kBlock ? kThreads : kWarpLanes;  // threads per row
  const int64_t index = static_cast<int64_t>(blockIdx.x) * (kThreads / kLanes) + threadIdx.x / kLanes;
  if (index >= a.matrices * a.rows) return;  // whole warps, or the whole block
  const int64_t query = a.first_query + index % a.rows;
  const float* const row = a.logits + index * a.stride;
  const float* const bias = a.bias == nullptr ? nullptr : a.bias + query * a.bias_stride;
  const Seen seen = Sees(a, query);
  const int64_t first = static_cast<int64_t>(threadIdx.x) % kLanes * kVector;
  float maximum = kNone, sum = 0.0f;
  for (int64_t column = first; column < a.keys; column += kLanes * kVector) {
    if (column >= seen.end || column + kVector <= seen.begin) continue;
    float f[kVector];
    Logits(a, row, bias, seen, column, f);
    float greatest = maximum;
#pragma unroll
    for (int j = 0; j < kVector; ++j) greatest = fmaxf(greatest, f[j]);
    sum *= expf(maximum - greatest);
#pragma unroll
    for (int j = 0; j < kVector; ++j) sum += f[j] > kNone ? expf(f[j] - greatest) : 0.0f;
    maximum = greatest;
  }
  const float greatest = Greatest<kBlock>(maximum);
  const float total = Total<kBlock>(sum * expf(maximum - greatest));
  const float factor = total > 0.0f ? 1.0f / total : 0.0f;
  Out* const out = static_cast<Out*>(a.weights.data) + index * a.weights.stride;
  for (int64_t column = first; column < a.keys; column += kLanes * kVector) {
    float f[kVector];
    Logits(a, row, bias, seen, column, f);
#pragma unroll
    for (int j = 0; j < kVector; ++j) f[j] = f[j] > kNone ? expf(f[j] - greatest) * factor : 0.0f;
    Store(out + column, f);
  }
}

template <typename Out>
cudaError_t LaunchTyped(const Softmax& a, cudaStream_t stream) {
  const int64_t rows = a.matrices * a.rows;
  constexpr int kWarps = kThreads / kWarpLanes;
  if (a.keys <= kShortRow) {
    return Launch(SoftmaxRows<Out, false>, dim3(static_cast<unsigned>((rows + kWarps - 1) / kWarps)), kThreads, 0,
                  stream, a);
  }
  return Launch(SoftmaxRows<Out, true>, dim3(static_cast<unsigned>(rows)), kThreads, 0, stream, a);
}

}  // namespace

cudaError_t LaunchSoftmax(const Softmax& a, cudaStream_t stream) {
  const Rows logits{const_cast<float*>(a.logits), a.stride, Type::kF32};
  const bool valid = a.matrices > 0 && a.rows > 0 && a.keys > 0 && a.matrices * a.rows <= 0x7fffffff &&
                     a.logits != nullptr && a.weights.data != nullptr && Vectors(logits, kVector) &&
                     Vectors(a.weights, kVector) && a.stride >= a.keys && a.weights.stride >= a.keys;
  if (!valid) return cudaErrorInvalidValue;
  return a.weights.type == Type::kBf16 ? LaunchTyped<bf16>(a, stream) : LaunchTyped<float>(a, stream);
}

}  // namespace kinora::kernels
