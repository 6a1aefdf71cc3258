// One thread per eight elements, or per element if rows do not consist of whole aligned vectors. The function is
// selected outside the loops, which are bound by memory.
#include "kernels/device/activations.h"
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/elementwise.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;  // beyond it, threads advance by strides of the grid

using Kind = ElementwiseKind;

template <typename T>
__device__ __forceinline__ T* At(const Rows& rows, int64_t row, int64_t column) {
  return static_cast<T*>(rows.data) + row * rows.stride + column;
}

// v = kind(v) for the functions with a single operand per element.
template <int kEach>
__device__ __forceinline__ void Unary(const Elementwise& e, float (&v)[kEach]) {
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    if (e.kind == Kind::kFill) v[j] = e.factor;
    if (e.kind == Kind::kScale) v[j] *= e.factor;
    if (e.kind == Kind::kSilu || e.kind == Kind::kSiluMultiply) v[j] = Silu(v[j]);
    if (e.kind == Kind::kGeluTanh || e.kind == Kind::kGeluTanhMultiply) v[j] = GeluTanh(v[j]);
  }
}

template <typename B, int kEach>
__device__ __forceinline__ void Binary(const Elementwise& e, int64_t row, int64_t column, float (&v)[kEach]) {
  float b[kEach];
  if (e.kind == Kind::kAdd) {
    Load(At<B>(e.b, row, column), b);
#pragma unroll
    for (int j = 0; j < kEach; ++j) v[j] += b[j];
  } else if (e.kind == Kind::kSiluMultiply || e.kind == Kind::kGeluTanhMultiply) {
    Load(At<B>(e.b, row, column), b);
#pragma unroll
    for (int j = 0; j < kEach; ++j) v[j] *= b[j];
  } else if (e.kind == Kind::kGateHeads) {
    const float gate = 2.0f * Sigmoid(LoadOne(At<B>(e.b, row, column / e.head_width)));
#pragma unroll
    for (int j = 0; j < kEach; ++j) v[j] *= gate;
  } else if (e.kind == Kind::kAffine) {
    float shift[kEach];
    Load(e.scale + column, b);
    Load(e.shift + column, shift);
#pragma unroll
    for (int j = 0; j < kEach; ++j) v[j] = v[j] * b[j] + shift[j];
  }
}

template <typename A, typename B, typename Out, int kEach>
__global__ void __launch_bounds__(kThreads) ElementwiseKernel(Elementwise e) {
  const int64_t pieces = e.width / kEach, all = e.rows * pieces, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = i / pieces, column = i % pieces * kEach;
    float v[kEach] = {};
    if (row >= e.first && row < e.end) {
      Load(At<const A>(e.replacement, row - e.first, column), v);
    } else if (e.kind != Kind::kFill) {
      Load(At<const A>(e.a, row, column), v);
    }
    Unary(e, v);
    Binary<const B>(e, row, column, v);
    Store(At<Out>(e.out, row, column), v);
  }
}

bool Vectors(const float* values) { return reinterpret_cast<uintptr_t>(values) % 16 == 0; }

bool Vectors(const Elementwise& e) {
  const bool b = e.kind == Kind::kGateHeads ? e.head_width % kVector == 0 : Vectors(e.b, e.width);
  return Vectors(e.a, e.width) && b && Vectors(e.replacement, e.width) && Vectors(e.out, e.width) && Vectors(e.scale) &&
         Vectors(e.shift);
}

template <typename A, typename B, typename Out>
cudaError_t LaunchTyped(const Elementwise& e, cudaStream_t stream) {
  const bool vectors = Vectors(e);
  const int64_t threads = e.rows * e.width / (vectors ? kVector : 1);
  const dim3 grid(static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, kMaxBlocks)));
  if (vectors) return Launch(ElementwiseKernel<A, B, Out, kVector>, grid, kThreads, 0, stream, e);
  return Launch(ElementwiseKernel<A, B, Out, 1>, grid, kThreads, 0, stream, e);
}

template <typename A, typename B>
cudaError_t ByOutput(const Elementwise& e, cudaStream_t stream) {
  return e.out.type == Type::kBf16 ? LaunchTyped<A, B, bf16>(e, stream) : LaunchTyped<A, B, float>(e, stream);
}

template <typename A>
cudaError_t BySecond(const Elementwise& e, cudaStream_t stream) {
  return e.b.type == Type::kBf16 ? ByOutput<A, bf16>(e, stream) : ByOutput<A, float>(e, stream);
}

// Whether all operands that the kind reads are present.
bool Complete(const Elementwise& e) {
  if (e.kind == Kind::kFill) return true;
  if (e.a.data == nullptr) return false;
  if (e.kind == Kind::kAffine) return e.scale != nullptr && e.shift != nullptr;
  if (e.kind == Kind::kGateHeads && (e.head_width <= 0 || e.width % e.head_width != 0)) return false;
  if (e.end > e.first && (e.replacement.data == nullptr || e.replacement.type != e.a.type)) return false;
  const bool two = e.kind == Kind::kAdd || e.kind == Kind::kSiluMultiply || e.kind == Kind::kGeluTanhMultiply ||
                   e.kind == Kind::kGateHeads;
  return !two || e.b.data != nullptr;
}

}  // namespace

cudaError_t LaunchElementwise(const Elementwise& e, cudaStream_t stream) {
  if (e.rows <= 0 || e.width <= 0 || e.out.data == nullptr || !Complete(e)) return cudaErrorInvalidValue;
  return e.a.type == Type::kBf16 ? BySecond<bf16>(e, stream) : BySecond<float>(e, stream);
}

}  // namespace kinora::kernels
