#include "kernels/device/device.h"
#include "kernels/rope_table.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 16;  // beyond it, blocks advance by strides of the grid

// A block takes a token; neighbouring threads take neighbouring columns.
__global__ void __launch_bounds__(kThreads) RopeTableKernel(RopeTable a) {
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
    for (int c = static_cast<int>(threadIdx.x); c < a.columns; c += kThreads) {
      const int turned = a.first + c - a.pad;
      double cosine = 1.0, sine = 0.0;
      if (turned >= 0) {
        const float angle = a.fractions[turned % a.axes * a.tokens + token] * a.frequencies[turned / a.axes];
        sincos(static_cast<double>(angle), &sine, &cosine);
      }
      a.cos[token * a.columns + c] = static_cast<float>(cosine);
      a.sin[token * a.columns + c] = static_cast<float>(sine);
    }
  }
}

}  // namespace

cudaError_t LaunchRopeTable(const RopeTable& a, cudaStream_t stream) {
  if (a.tokens <= 0 || a.columns <= 0 || a.first < 0 || a.pad < 0 || a.axes <= 0 || a.count < 0) {
    return cudaErrorInvalidValue;
  }
  if (int64_t{a.first} + a.columns > int64_t{a.pad} + int64_t{a.axes} * a.count) return cudaErrorInvalidValue;
  if (a.fractions == nullptr || a.frequencies == nullptr || a.cos == nullptr || a.sin == nullptr) {
    return cudaErrorInvalidValue;
  }
  const dim3 grid = static_cast<unsigned>(min(a.tokens, kMaxBlocks));
  return Launch(RopeTableKernel, grid, kThreads, 0, stream, a);
}

}  // namespace kinora::kernels
