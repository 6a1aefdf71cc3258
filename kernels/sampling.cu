#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/sampling.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;         // beyond it, threads advance by strides of the grid
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

// The number of parts depends on the number of elements alone.
__host__ __device__ __forceinline__ int64_t PartsOf(int64_t n) {
  constexpr int64_t kWorthABlock = 4096;
  return min((n + kWorthABlock - 1) / kWorthABlock, int64_t{kSpreadParts});
}

// The elements [begin, end) of a part; empty past the last part. Parts consist of whole vectors, also if elements are
// read one by one.
struct Part {
  int64_t begin, end;
  __device__ Part(int64_t n, int part) {
    const int64_t each = ((n + PartsOf(n) - 1) / PartsOf(n) + kVector - 1) / kVector * kVector;
    begin = min(n, part * each);
    end = min(n, begin + each);
  }
  __device__ double size() const { return static_cast<double>(end - begin); }
};

// For kEach elements from i on: the weighted sum, and the conditioned pass's prediction.
template <int kEach>
struct Joined {
  float sum[kEach] = {}, cond[kEach];
  __device__ __forceinline__ Joined(const GuidedStep& a, int64_t i) {
    float z[kEach] = {}, sigma = -1;  // 0 − (−1)·v is v
    if (a.sigma != nullptr) {
      Load(a.z + i, z);
      sigma = a.sigma[a.sigma_per_token ? i / a.channels : 0];
    }
    for (int p = 0; p < a.passes; ++p) {
      const float weight = a.weights[p];
      float x0[kEach];
      Load(a.v + p * a.tokens * a.channels + i, x0);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        x0[j] = z[j] - sigma * x0[j];
        sum[j] += weight * x0[j];
        if (p == a.cond) cond[j] = x0[j];
      }
    }
  }
};

// Sums of distances from `origin`, one of the values, so that their squares do not cancel.
struct Spread {
  const float origin;
  double sum = 0, squares = 0;
  __device__ __forceinline__ void Add(float v) {
    const double apart = static_cast<double>(v) - origin;
    sum += apart;
    squares += apart * apart;
  }
};

// Merges the spreads of all threads. The squares of a constant are exactly 0.
template <int kUse>
__device__ __forceinline__ SpreadPart Merged(const Spread& spread, const Part& part) {
  const double sum = BlockSum<kUse>(spread.sum), squares = BlockSum<kUse + 1>(spread.squares);
  return {part.size() * spread.origin + sum, fmax(squares - sum * sum / part.size(), 0.0)};
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) JoinKernel(GuidedStep a) {
  WaitForPrevious();
  const Part part(a.tokens * a.channels, static_cast<int>(blockIdx.x));
  if (part.begin == part.end) return;  // all threads of the block
  const bool rescaled = a.weights[a.passes] != 0.0f;
  const Joined<1> first(a, part.begin);
  Spread of_sum{first.sum[0]}, of_cond{first.cond[0]};
  for (int64_t i = part.begin + int64_t{threadIdx.x} * kEach; i < part.end; i += int64_t{kThreads} * kEach) {
    const Joined<kEach> joined(a, i);
    Store(a.x0 + i, joined.sum);
    if (!rescaled) continue;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      of_sum.Add(joined.sum[j]);
      of_cond.Add(joined.cond[j]);
    }
  }
  if (!rescaled) return;  // all threads of all blocks
  const SpreadPart sum = Merged<0>(of_sum, part), cond = Merged<2>(of_cond, part);
  if (threadIdx.x == 0) {
    a.parts[blockIdx.x] = sum;
    a.parts[kSpreadParts + blockIdx.x] = cond;
  }
}

// √(Σ(x − mean)² / (n − 1)) from the parts: squared distances from each part's mean, plus those of the parts'
// means from the overall mean. A constant gives exactly 0: sums of equal floats are exact in double.
template <int kUse>
__device__ __forceinline__ double StandardDeviation(const SpreadPart* parts, int64_t n) {
  const double size = Part(n, static_cast<int>(threadIdx.x)).size();
  const SpreadPart part = size == 0 ? SpreadPart{0, 0} : parts[threadIdx.x];
  const double mean = BlockSum<kUse>(part.sum) / static_cast<double>(n);
  const double apart = size == 0 ? 0.0 : part.sum / size - mean;
  const double squares = BlockSum<kUse + 1>(part.squares + size * apart * apart);
  return sqrt(squares / static_cast<double>(n - 1));
}

// Returns the factor of guidance rescale, or 1 if there is none or x0 is constant.
__device__ __forceinline__ float RescaleFactor(const GuidedStep& a) {
  const double rescale = a.weights[a.passes];
  const int64_t n = a.tokens * a.channels;
  if (rescale == 0 || n == 1) return 1;
  const double deviation = StandardDeviation<0>(a.parts, n);
  if (deviation == 0) return 1;  // all threads
  const double ratio = StandardDeviation<2>(a.parts + kSpreadParts, n) / deviation;
  return static_cast<float>(rescale * ratio + (1.0 - rescale));
}

template <int kEach>
__device__ __forceinline__ void BlendClean(const GuidedStep& a, int64_t i, float (&x)[kEach]) {
  const int64_t token = i / a.channels, row = a.blend.row == nullptr ? 0 : a.blend.row[token % a.blend.tokens];
  const float* const slots = a.blend.table + row * a.blend.slots * a.channels + i % a.channels;
  float kept[kEach], taken[kEach], clean[kEach];
  Load(slots, kept);
  Load(slots + 2 * a.channels, taken);
  Load(a.clean + i, clean);
#pragma unroll
  for (int j = 0; j < kEach; ++j) x[j] = x[j] * (1 + kept[j]) + clean[j] * taken[j];
}

// The Euler step of kEach elements of z.
template <int kEach>
__device__ __forceinline__ void StepFrom(const float (&x0)[kEach], float sigma, float by, float* z) {
  float o[kEach];
  Load(z, o);
#pragma unroll
  for (int j = 0; j < kEach; ++j) o[j] += (o[j] - x0[j]) / sigma * by;
  Store(z, o);
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) FinishKernel(GuidedStep a) {
  WaitForPrevious();
  const float factor = RescaleFactor(a);
  const bool changed = factor != 1 || a.clean != nullptr, steps = a.sigmas != nullptr;
  if (!changed && !steps) return;  // all threads of all blocks
  const float sigma = steps ? a.sigmas[0] : 1, by = steps ? a.sigmas[1] - sigma : 0;
  const int64_t n = a.tokens * a.channels, step = int64_t{gridDim.x} * kThreads * kEach;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kEach; i < n; i += step) {
    float x[kEach];
    Load(a.x0 + i, x);
#pragma unroll
    for (int j = 0; j < kEach; ++j) x[j] *= factor;
    if (a.clean != nullptr) BlendClean(a, i, x);
    if (changed) Store(a.x0 + i, x);
    if (steps) StepFrom(x, sigma, by, a.z + i);
  }
}

template <int kEach>
__global__ void __launch_bounds__(kThreads) EulerStepKernel(const float* x0, const float* sigmas, float* z, int64_t n) {
  WaitForPrevious();
  const float sigma = sigmas[0], by = sigmas[1] - sigma;
  const int64_t step = int64_t{gridDim.x} * kThreads * kEach;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kEach; i < n; i += step) {
    float x[kEach];
    Load(x0 + i, x);
    StepFrom(x, sigma, by, z + i);
  }
}

template <int kEach>
cudaError_t LaunchBoth(const GuidedStep& a, cudaStream_t stream) {
  const int64_t n = a.tokens * a.channels;
  const cudaError_t error = LaunchEarly(JoinKernel<kEach>, static_cast<unsigned>(PartsOf(n)), kThreads, 0, stream, a);
  if (error != cudaSuccess) return error;
  return LaunchEarly(FinishKernel<kEach>, GridOf(n / kEach, kMaxMergingBlocks), kThreads, 0, stream, a);
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

cudaError_t LaunchGuidedStep(const GuidedStep& a, cudaStream_t stream) {
  if (a.tokens <= 0 || a.channels <= 0 || a.passes <= 0 || a.cond < 0 || a.cond >= a.passes) {
    return cudaErrorInvalidValue;
  }
  if (a.v == nullptr || a.weights == nullptr || a.x0 == nullptr || a.parts == nullptr) return cudaErrorInvalidValue;
  if ((a.sigma != nullptr || a.sigmas != nullptr) != (a.z != nullptr)) return cudaErrorInvalidValue;
  if (a.clean != nullptr && (a.blend.table == nullptr || a.blend.base != nullptr)) return cudaErrorInvalidValue;
  const bool vectors = a.channels % kVector == 0 && Aligned(a.v) && Aligned(a.x0) && Aligned(a.z) && Aligned(a.clean) &&
                       Aligned(a.blend.table);
  return vectors ? LaunchBoth<kVector>(a, stream) : LaunchBoth<1>(a, stream);
}

cudaError_t LaunchEulerStep(const float* x0, const float* sigmas, float* z, int64_t elements, cudaStream_t stream) {
  if (elements <= 0 || x0 == nullptr || sigmas == nullptr || z == nullptr) return cudaErrorInvalidValue;
  if (elements % kVector == 0 && Aligned(x0) && Aligned(z)) {
    return LaunchEarly(EulerStepKernel<kVector>, GridOf(elements / kVector), kThreads, 0, stream, x0, sigmas, z,
                       elements);
  }
  return LaunchEarly(EulerStepKernel<1>, GridOf(elements), kThreads, 0, stream, x0, sigmas, z, elements);
}

}  // namespace kinora::kernels
