// One thread per eight channels under a tap, or per channel if channels do not consist of whole aligned vectors. All
// threads of a block have the same tap.
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/im2col.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxIndex = 0x7fffffff, kMaxTaps = 65535;
constexpr int64_t kOutside = -1;

__device__ __forceinline__ int64_t Source(const Im2colAxis& axis, int64_t output, int tap) {
  const int64_t at = output * axis.stride - axis.before + static_cast<int64_t>(tap) * axis.dilation;
  if (at >= 0 && at < axis.extent) return at;
  if (axis.edge == Edge::kZeros) return kOutside;
  if (axis.edge == Edge::kReplicate) return at < 0 ? 0 : axis.extent - 1;
  return at < 0 ? -at : 2 * (axis.extent - 1) - at;
}

template <typename X, typename Column, bool kVectors>
__global__ void __launch_bounds__(kThreads) Im2colKernel(Im2col a) {
  constexpr int kEach = kVectors ? kVector : 1;
  const auto pieces = static_cast<unsigned>(a.channels) / kEach;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(a.count) * pieces) return;
  const unsigned row = i / pieces;
  const int64_t channel = int64_t{i % pieces} * kEach, position = a.first + row;
  const int64_t line = position / a.width.outputs, frame = line / a.height.outputs;
  const int tap = static_cast<int>(blockIdx.y), line_tap = tap / a.width.taps;
  const int64_t x = Source(a.width, position - line * a.width.outputs, tap % a.width.taps);
  const int64_t y = Source(a.height, line - frame * a.height.outputs, line_tap % a.height.taps);
  const int64_t t = Source(a.time, frame, line_tap / a.height.taps);
  const bool inside = x != kOutside && y != kOutside && t != kOutside;
  const X* const from =
      static_cast<const X*>(a.x.data) + ((t * a.height.extent + y) * a.width.extent + x) * a.x.stride + channel;
  Column* const to = static_cast<Column*>(a.columns.data) + row * a.columns.stride + tap * a.channels + channel;
  if constexpr (kVectors) {
    float f[kVector] = {};
    if (inside) Load(from, f);
    Store(to, f);
  } else {
    StoreOne(to, inside ? LoadOne(from) : 0.0f);
  }
}

bool Valid(const Im2colAxis& a) {
  const int64_t last = (a.outputs - 1) * a.stride - a.before + (a.taps - int64_t{1}) * a.dilation;
  const bool reflected_once = a.before < a.extent && last <= 2 * (a.extent - 1);
  return a.extent > 0 && a.outputs > 0 && a.taps > 0 && a.stride > 0 && a.dilation > 0 &&
         (a.edge != Edge::kReflect || reflected_once);
}

template <typename X, typename Column>
cudaError_t LaunchTyped(const Im2col& a, cudaStream_t stream) {
  const bool vectors = Vectors(a.x, a.channels) && Vectors(a.columns, a.channels);
  const int64_t threads = a.count * a.channels / (vectors ? kVector : 1);
  const dim3 grid(static_cast<unsigned>((threads + kThreads - 1) / kThreads),
                  static_cast<unsigned>(a.time.taps * a.height.taps * a.width.taps));
  if (vectors) return Launch(Im2colKernel<X, Column, true>, grid, kThreads, 0, stream, a);
  return Launch(Im2colKernel<X, Column, false>, grid, kThreads, 0, stream, a);
}

}  // namespace

cudaError_t LaunchIm2col(const Im2col& a, cudaStream_t stream) {
  const bool valid = a.x.data != nullptr && a.columns.data != nullptr && a.channels > 0 && Valid(a.time) &&
                     Valid(a.height) && Valid(a.width) && a.first >= 0 && a.count > 0 &&
                     a.first + a.count <= a.time.outputs * a.height.outputs * a.width.outputs &&
                     int64_t{a.time.taps} * a.height.taps * a.width.taps <= kMaxTaps &&
                     a.count * a.channels <= kMaxIndex;
  if (!valid) return cudaErrorInvalidValue;
  if (a.x.type == Type::kF32) {
    return a.columns.type == Type::kF32 ? LaunchTyped<float, float>(a, stream) : LaunchTyped<float, bf16>(a, stream);
  }
  return a.columns.type == Type::kF32 ? LaunchTyped<bf16, float>(a, stream) : LaunchTyped<bf16, bf16>(a, stream);
}

}  // namespace kinora::kernels
