// One thread per eight elements, or per element if rows do not consist of whole aligned vectors.
#include "kernels/copy_rows.h"
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;  // beyond it, threads advance by strides of the grid

template <typename From, typename To, bool kVectors>
__global__ void __launch_bounds__(kThreads) CopyRowsKernel(Rows from, Rows to, int64_t rows, int64_t width) {
  WaitForPrevious();
  constexpr int kEach = kVectors ? kVector : 1;
  const int64_t pieces = width / kEach, all = rows * pieces, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t row = i / pieces, column = i % pieces * kEach;
    const From* const in = static_cast<const From*>(from.data) + row * from.stride + column;
    To* const out = static_cast<To*>(to.data) + row * to.stride + column;
    if constexpr (kVectors) {
      float f[kVector];
      Load(in, f);
      Store(out, f);
    } else if constexpr (std::is_same_v<From, To>) {
      *out = *in;
    } else {
      StoreOne(out, LoadOne(in));
    }
  }
}

template <typename From, typename To>
cudaError_t LaunchTyped(const Rows& from, const Rows& to, int64_t rows, int64_t width, cudaStream_t stream) {
  const bool vectors = Vectors(from, width) && Vectors(to, width);
  const int64_t threads = rows * width / (vectors ? kVector : 1);
  const dim3 grid(static_cast<unsigned>(min((threads + kThreads - 1) / kThreads, kMaxBlocks)));
  if (vectors) return LaunchEarly(CopyRowsKernel<From, To, true>, grid, kThreads, 0, stream, from, to, rows, width);
  return LaunchEarly(CopyRowsKernel<From, To, false>, grid, kThreads, 0, stream, from, to, rows, width);
}

}  // namespace

cudaError_t LaunchCopyRows(const Rows& from, const Rows& to, int64_t rows, int64_t width, cudaStream_t stream) {
  if (rows <= 0 || width <= 0 || from.data == nullptr || to.data == nullptr) return cudaErrorInvalidValue;
  if (from.type == Type::kF32) {
    return to.type == Type::kF32 ? LaunchTyped<float, float>(from, to, rows, width, stream)
                                 : LaunchTyped<float, bf16>(from, to, rows, width, stream);
  }
  return to.type == Type::kF32 ? LaunchTyped<bf16, float>(from, to, rows, width, stream)
                               : LaunchTyped<bf16, bf16>(from, to, rows, width, stream);
}

}  // namespace kinora::kernels
