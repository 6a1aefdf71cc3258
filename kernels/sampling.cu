#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/sampling.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;         // threads go on by strides of the grid from there
constexpr int64_t kMaxMergingBlocks = 1 << 10;  // each merges all parts first
static_assert(kSpreadParts == kThreads, "a thread merges a part");

dim3 GridOf(int64_t threads, int64_t max_blocks = kMaxBlocks) {
  return static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, max_blocks));
}

bool Aligned(const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

template <int kEach>
__global__ void __launch_bounds__(kThreads) PredictX0Kernel(PredictX0 a) {
  const int64_t pieces = a.channels / kEach, all = a.passes * a.tokens * pieces;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += step) {
    const int64_t token = i / pieces % a.tokens;
    const float sigma = a.sigma[a.sigma_per_token ? token : 0];
    float z[kEach], v[kEach];
    Load(a.z + token * a.channels + i % pieces * kEach, z);
    Load(a.v + i * kEach, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) z[j] -= sigma * v[j];
    Store(a.x0 + i * kEach, z);
  }
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) EulerStepKernel(const float* x0, const float* sigmas, float* z, int64_t n) {
  const float sigma = sigmas[0], by = sigmas[1] - sigma;
  const int64_t step = int64_t{gridDim.x} * kThreads * kEach;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kEach; i < n; i += step) {
    float x[kEach], o[kEach];
    Load(x0 + i, x);
    Load(z + i, o);
#pragma unroll
    for (int j = 0; j < kEach; ++j) o[j] += (o[j] - x[j]) / sigma * by;
    Store(z + i, o);
  }
}

// How many parts there are depends on the number of elements alone.
__host__ __device__ __forceinline__ int64_t PartsOf(int64_t n) {
  constexpr int64_t kWorthABlock = 4096;
  return min((n + kWorthABlock - 1) / kWorthABlock, int64_t{kSpreadParts});
}

// [begin, end) of a part, empty past the last one: whole pieces, the same ones whether they are read as vectors or not.
struct Part {
  int64_t begin, end;
  __device__ Part(int64_t n, int part) {
    const int64_t each = ((n + PartsOf(n) - 1) / PartsOf(n) + kVector - 1) / kVector * kVector;
    begin = min(n, part * each);
    end = min(n, begin + each);
  }
  __device__ double size() const { return static_cast<double>(end - begin); }
};

// Of a block's part of x, by its second look at it; `sum` is that of all threads. Thread 0's result counts.
template <int kEach, int kUse>
__device__ __forceinline__ SpreadPart Spread(const float* x, const Part& part, double sum) {
  const double mean = sum / part.size();
  double squares = 0;
  for (int64_t i = part.begin + int64_t{threadIdx.x} * kEach; i < part.end; i += int64_t{kThreads} * kEach) {
    float v[kEach];
    Load(x + i, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) squares += (v[j] - mean) * (v[j] - mean);
  }
  return {sum, BlockSum<kUse>(squares)};
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) CombineKernel(CombineGuidance a) {
  const bool rescaled = a.weights[a.passes] != 0.0f;
  const Part part(a.elements, static_cast<int>(blockIdx.x));
  const float* const cond = a.x0 + a.cond * a.elements;
  double sum = 0, sum_of_cond = 0;
  for (int64_t i = part.begin + int64_t{threadIdx.x} * kEach; i < part.end; i += int64_t{kThreads} * kEach) {
    float v[kEach], total[kEach] = {};
    for (int p = 0; p < a.passes; ++p) {
      const float weight = a.weights[p];
      Load(a.x0 + p * a.elements + i, v);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        total[j] += weight * v[j];
        if (p == a.cond) sum_of_cond += v[j];
      }
    }
    Store(a.out + i, total);
#pragma unroll
    for (int j = 0; j < kEach; ++j) sum += total[j];
  }
  if (!rescaled) return;  // all threads of all blocks
  sum = BlockSum<0>(sum);
  sum_of_cond = BlockSum<1>(sum_of_cond);
  const SpreadPart of_out = Spread<kEach, 2>(a.out, part, sum);  // a thread reads what it wrote itself
  const SpreadPart of_cond = Spread<kEach, 3>(cond, part, sum_of_cond);
  if (threadIdx.x == 0) {
    a.parts[blockIdx.x] = of_out;
    a.parts[kSpreadParts + blockIdx.x] = of_cond;
  }
}

// √(Σ(x − mean)² / (n − 1)) from the parts: the distances from the parts' means, and those of the means from the
// whole's. A constant gives exactly 0: sums of equal floats are exact in double.
template <int kUse>
__device__ __forceinline__ double StandardDeviation(const SpreadPart* parts, int64_t n) {
  const double size = Part(n, static_cast<int>(threadIdx.x)).size();
  const SpreadPart part = size == 0 ? SpreadPart{0, 0} : parts[threadIdx.x];
  const double mean = BlockSum<kUse>(part.sum) / static_cast<double>(n);
  const double apart = size == 0 ? 0.0 : part.sum / size - mean;
  const double squares = BlockSum<kUse + 1>(part.squares + size * apart * apart);
  return sqrt(squares / static_cast<double>(n - 1));
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) RescaleKernel(CombineGuidance a) {
  const double rescale = a.weights[a.passes];
  if (rescale == 0) return;  // all threads of all blocks
  const double deviation = StandardDeviation<0>(a.parts, a.elements);
  if (deviation == 0) return;  // a constant has none to scale
  const double ratio = StandardDeviation<2>(a.parts + kSpreadParts, a.elements) / deviation;
  const auto factor = static_cast<float>(rescale * ratio + (1.0 - rescale));
  const int64_t step = int64_t{gridDim.x} * kThreads * kEach;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kEach; i < a.elements; i += step) {
    float v[kEach];
    Load(a.out + i, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) v[j] *= factor;
    Store(a.out + i, v);
  }
}

template <int kEach>
cudaError_t LaunchBoth(const CombineGuidance& a, cudaStream_t stream) {
  const cudaError_t error =
      Launch(CombineKernel<kEach>, static_cast<unsigned>(PartsOf(a.elements)), kThreads, 0, stream, a);
  if (error != cudaSuccess || a.elements == 1) return error;  // one element has no deviation
  return Launch(RescaleKernel<kEach>, GridOf(a.elements / kEach, kMaxMergingBlocks), kThreads, 0, stream, a);
}

}  // namespace

cudaError_t LaunchPredictX0(const PredictX0& a, cudaStream_t stream) {
  if (a.passes <= 0 || a.tokens <= 0 || a.channels <= 0) return cudaErrorInvalidValue;
  if (a.z == nullptr || a.v == nullptr || a.sigma == nullptr || a.x0 == nullptr) return cudaErrorInvalidValue;
  const int64_t elements = a.passes * a.tokens * a.channels;
  if (a.channels % kVector == 0 && Aligned(a.z) && Aligned(a.v) && Aligned(a.x0)) {
    return Launch(PredictX0Kernel<kVector>, GridOf(elements / kVector), kThreads, 0, stream, a);
  }
  return Launch(PredictX0Kernel<1>, GridOf(elements), kThreads, 0, stream, a);
}

cudaError_t LaunchCombineGuidance(const CombineGuidance& a, cudaStream_t stream) {
  if (a.elements <= 0 || a.passes <= 0 || a.cond < 0 || a.cond >= a.passes) return cudaErrorInvalidValue;
  if (a.x0 == nullptr || a.weights == nullptr || a.out == nullptr || a.parts == nullptr) return cudaErrorInvalidValue;
  const bool vectors = a.elements % kVector == 0 && Aligned(a.x0) && Aligned(a.out);
  return vectors ? LaunchBoth<kVector>(a, stream) : LaunchBoth<1>(a, stream);
}

cudaError_t LaunchEulerStep(const float* x0, const float* sigmas, float* z, int64_t elements, cudaStream_t stream) {
  if (elements <= 0 || x0 == nullptr || sigmas == nullptr || z == nullptr) return cudaErrorInvalidValue;
  if (elements % kVector == 0 && Aligned(x0) && Aligned(z)) {
    return Launch(EulerStepKernel<kVector>, GridOf(elements / kVector), kThreads, 0, stream, x0, sigmas, z, elements);
  }
  return Launch(EulerStepKernel<1>, GridOf(elements), kThreads, 0, stream, x0, sigmas, z, elements);
}

}  // namespace kinora::kernels
