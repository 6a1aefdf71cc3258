// One thread per eight elements, or per element if rows or blocks do not consist of whole aligned vectors.
#include "kernels/device/activations.h"
#include "kernels/device/blocks.h"
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/join_heads.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;  // beyond it, threads advance by strides of the grid
constexpr int64_t kMaxRows = 0x7fffffff;

// Returns where an element of the result comes from.
template <typename T>
__device__ __forceinline__ const T* Source(const JoinHeads& a, int64_t row, int64_t column) {
  if (row >= a.first_value && row < a.first_value + a.value_rows) {
    return static_cast<const T*>(a.values.data) + (row - a.first_value) * a.values.stride + column;
  }
  if (row >= a.first_block && row < a.first_block + a.block_rows) {
    return static_cast<const T*>(a.blocks.data) + RowOffset(a.blocks, row - a.first_block) +
           ColumnOffset(a.blocks, column);
  }
  return static_cast<const T*>(a.out.data) + row * a.out.stride + column;
}

template <typename T, typename Logit, int kEach>
__global__ void __launch_bounds__(kThreads) JoinHeadsKernel(JoinHeads a) {
  const int64_t pieces = a.width / kEach, all = a.rows * pieces, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = i / pieces, column = i % pieces * kEach;
    float v[kEach];
    Load(Source<T>(a, row, column), v);
    if (a.logits.data != nullptr) {
      const auto* const logits = static_cast<const Logit*>(a.logits.data) + row * a.logits.stride;
      const float gate = 2.0f * Sigmoid(LoadOne(logits + column / a.head_width));
#pragma unroll
      for (int j = 0; j < kEach; ++j) v[j] *= gate;
    }
    Store(static_cast<T*>(a.out.data) + row * a.out.stride + column, v);
  }
}

bool Vectors(const JoinHeads& a) {
  const Rows blocks{a.blocks.data, a.blocks.stride, a.out.type};
  return Vectors(a.out, a.width) && Vectors(a.values, a.width) && Vectors(blocks, a.blocks.width) &&
         (a.logits.data == nullptr || a.head_width % kVector == 0);
}

template <typename T, typename Logit>
cudaError_t LaunchTyped(const JoinHeads& a, cudaStream_t stream) {
  const bool vectors = Vectors(a);
  const int64_t threads = a.rows * a.width / (vectors ? kVector : 1);
  const dim3 grid(static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, kMaxBlocks)));
  if (vectors) return Launch(JoinHeadsKernel<T, Logit, kVector>, grid, kThreads, 0, stream, a);
  return Launch(JoinHeadsKernel<T, Logit, 1>, grid, kThreads, 0, stream, a);
}

template <typename T>
cudaError_t ByLogits(const JoinHeads& a, cudaStream_t stream) {
  return a.logits.type == Type::kBf16 ? LaunchTyped<T, bf16>(a, stream) : LaunchTyped<T, float>(a, stream);
}

bool Valid(const JoinHeads& a) {
  if (a.rows <= 0 || a.rows > kMaxRows || a.width <= 0 || a.width > kMaxRows || a.out.data == nullptr) return false;
  if (a.block_rows > 0) {
    const Blocks& b = a.blocks;
    if (b.data == nullptr || b.rows <= 0 || b.width <= 0 || b.stride < b.width) return false;
    if (a.block_rows % b.rows != 0 || b.count * b.width != a.width) return false;
    if (a.first_block < 0 || a.first_block + a.block_rows > a.rows) return false;
  }
  if (a.value_rows > 0) {
    if (a.values.data == nullptr || a.values.type != a.out.type) return false;
    if (a.first_value < 0 || a.first_value + a.value_rows > a.rows) return false;
  }
  return a.logits.data == nullptr || (a.head_width > 0 && a.width % a.head_width == 0);
}

}  // namespace

cudaError_t LaunchJoinHeads(const JoinHeads& a, cudaStream_t stream) {
  if (!Valid(a)) return cudaErrorInvalidValue;
  return a.out.type == Type::kBf16 ? ByLogits<bf16>(a, stream) : ByLogits<float>(a, stream);
}

}  // namespace kinora::kernels
