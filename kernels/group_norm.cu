#include "kernels/device/activations.h"
#include "kernels/device/device.h"
#include "kernels/device/reduce.h"
#include "kernels/device/vector_io.h"
#include "kernels/group_norm.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxParts = 64;
constexpr int64_t kRowsAPart = 64;
constexpr int64_t kMaxBlocks = 0x7fffffff;

// In both launches a block handles one group in one part of the rows of one sample. The blocks of a group are adjacent.
struct Share {
  GroupNorm norm;
  int parts;
  int64_t rows_a_part;
};

// Calls f(row, column) for this block's pieces of kEach columns.
template <int kEach, typename F>
__device__ __forceinline__ void ForPieces(const Share& a, const F& f) {
  const int64_t columns = a.norm.width / a.norm.groups, pieces = columns / kEach;
  const int64_t part = blockIdx.x % a.parts, group = blockIdx.x / a.parts % a.norm.groups,
                sample = blockIdx.x / a.parts / a.norm.groups;
  const int64_t begin = part * a.rows_a_part, rows = min(a.norm.rows - begin, a.rows_a_part);
  for (int64_t i = threadIdx.x; i < rows * pieces; i += kThreads) {
    f(sample * a.norm.rows + begin + i / pieces, group * columns + i % pieces * kEach);
  }
}

template <typename T, int kEach>
__global__ void __launch_bounds__(kThreads) GroupMoments(Share a) {
  const T* const x = static_cast<const T*>(a.norm.x.data);
  double sum = 0, squares = 0;
  ForPieces<kEach>(a, [&](int64_t row, int64_t column) {
    float v[kEach];
    Load(x + row * a.norm.x.stride + column, v);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      sum += v[j];
      squares += static_cast<double>(v[j]) * v[j];
    }
  });
  sum = BlockSum<0>(sum);
  squares = BlockSum<1>(squares);
  if (threadIdx.x == 0) a.norm.parts[blockIdx.x] = {sum, squares};
}

template <typename T, typename Out, int kEach>
__global__ void __launch_bounds__(kThreads) NormalizeGroups(Share a) {
  const GroupNorm& n = a.norm;
  const bool in = static_cast<int>(threadIdx.x) < a.parts;
  const GroupPart part = n.parts[blockIdx.x / a.parts * a.parts + (in ? threadIdx.x : 0)];
  const double sum = BlockSum<0>(in ? part.sum : 0.0), squares = BlockSum<1>(in ? part.squares : 0.0);
  const double share = 1.0 / static_cast<double>(n.rows * (n.width / n.groups));
  const double mean = sum * share, variance = max(0.0, squares * share - mean * mean);
  const auto center = static_cast<float>(mean);
  const float factor = 1.0f / sqrtf(static_cast<float>(variance) + n.eps);
  ForPieces<kEach>(a, [&](int64_t row, int64_t column) {
    float v[kEach], weight[kEach], bias[kEach], added[kEach] = {};
    Load(static_cast<const T*>(n.x.data) + row * n.x.stride + column, v);
    Load(n.weight + column, weight);
    Load(n.bias + column, bias);
    if (n.residual.data != nullptr) {
      Load(static_cast<const T*>(n.residual.data) + row * n.residual.stride + column, added);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      v[j] = (v[j] - center) * (factor * weight[j]) + bias[j] + added[j];
      if (n.silu) v[j] = Silu(v[j]);
    }
    Store(static_cast<Out*>(n.out.data) + row * n.out.stride + column, v);
  });
}

template <typename T, typename Out, int kEach>
cudaError_t LaunchBoth(const Share& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(a.norm.samples * a.norm.groups * a.parts));
  const cudaError_t error = Launch(GroupMoments<T, kEach>, grid, kThreads, 0, stream, a);
  if (error != cudaSuccess) return error;
  return Launch(NormalizeGroups<T, Out, kEach>, grid, kThreads, 0, stream, a);
}

template <typename T, typename Out>
cudaError_t LaunchTyped(const Share& a, cudaStream_t stream) {
  const GroupNorm& n = a.norm;
  const int64_t columns = n.width / n.groups;
  const auto aligned = [](const float* t) { return reinterpret_cast<uintptr_t>(t) % 16 == 0; };
  const bool vectors = columns % kVector == 0 && Vectors(n.x, n.width) && Vectors(n.residual, n.width) &&
                       Vectors(n.out, n.width) && aligned(n.weight) && aligned(n.bias);
  return vectors ? LaunchBoth<T, Out, kVector>(a, stream) : LaunchBoth<T, Out, 1>(a, stream);
}

template <typename T>
cudaError_t ByOutput(const Share& a, cudaStream_t stream) {
  return a.norm.out.type == Type::kBf16 ? LaunchTyped<T, bf16>(a, stream) : LaunchTyped<T, float>(a, stream);
}

}  // namespace

int GroupNormParts(int64_t rows) {
  return static_cast<int>(min((rows + kRowsAPart - 1) / kRowsAPart, int64_t{kMaxParts}));
}

cudaError_t LaunchGroupNorm(const GroupNorm& n, cudaStream_t stream) {
  if (n.samples <= 0 || n.rows <= 0 || n.width <= 0 || n.groups <= 0) return cudaErrorInvalidValue;
  if (n.width % n.groups != 0 || n.x.data == nullptr || n.out.data == nullptr) return cudaErrorInvalidValue;
  if (n.weight == nullptr || n.bias == nullptr || n.parts == nullptr) return cudaErrorInvalidValue;
  if (n.residual.data != nullptr && n.residual.type != n.x.type) return cudaErrorInvalidValue;
  const int wanted = GroupNormParts(n.rows);
  Share a{.norm = n, .parts = wanted, .rows_a_part = (n.rows + wanted - 1) / wanted};
  a.parts = static_cast<int>((n.rows + a.rows_a_part - 1) / a.rows_a_part);  // no part is empty
  if (n.samples > kMaxBlocks / n.groups / a.parts) return cudaErrorInvalidValue;
  return n.x.type == Type::kBf16 ? ByOutput<bf16>(a, stream) : ByOutput<float>(a, stream);
}

}  // namespace kinora::kernels
