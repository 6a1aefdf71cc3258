// One thread per value of out. Neighbouring threads read the same channels of one block of pixels, which stay in the
// first-level cache.
#include "kernels/device/device.h"
#include "kernels/device/vector_io.h"
#include "kernels/space_to_depth.h"

namespace kinora::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 0x7fffffff;

struct Extents {  // of out
  int64_t frames, height, width, channels;
};

template <typename T, typename Out>
__global__ void __launch_bounds__(kThreads) SpaceToDepthKernel(SpaceToDepth a, Extents to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x, pixel = i / to.channels;
  if (pixel >= to.frames * to.height * to.width) return;
  const int64_t column = pixel % to.width * a.width_factor, line = pixel / to.width % to.height * a.height_factor;
  const int64_t frame = pixel / to.width / to.height * a.time_factor - (a.repeat_first ? 1 : 0);
  const int space = a.height_factor * a.width_factor, parts = a.time_factor * space;
  const int64_t first = i % to.channels * a.mean_of;
  float sum = 0;
  for (int64_t k = first; k < first + a.mean_of; ++k) {
    const int part = static_cast<int>(k % parts), within = part % space;
    const int h = a.width_before_height ? within % a.height_factor : within / a.width_factor;
    const int w = a.width_before_height ? within / a.height_factor : within % a.width_factor;
    const int64_t t = max(int64_t{0}, frame + part / space);
    const int64_t from = (t * a.height + line + h) * a.width + column + w;
    sum += LoadOne(static_cast<const T*>(a.x.data) + from * a.x.stride + k / parts);
  }
  Out* const out = static_cast<Out*>(a.out.data) + pixel * a.out.stride + i % to.channels;
  sum *= 1.0f / static_cast<float>(a.mean_of);
  StoreOne(out, a.add ? sum + LoadOne(out) : sum);
}

template <typename T>
cudaError_t LaunchFrom(const SpaceToDepth& a, const Extents& to, cudaStream_t stream) {
  const int64_t blocks = (to.frames * to.height * to.width * to.channels + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(blocks));
  if (a.out.type == Type::kBf16) return Launch(SpaceToDepthKernel<T, bf16>, grid, kThreads, 0, stream, a, to);
  return Launch(SpaceToDepthKernel<T, float>, grid, kThreads, 0, stream, a, to);
}

}  // namespace

cudaError_t LaunchSpaceToDepth(const SpaceToDepth& a, cudaStream_t stream) {
  if (a.frames <= 0 || a.height <= 0 || a.width <= 0 || a.channels <= 0 || a.mean_of <= 0) return cudaErrorInvalidValue;
  if (a.x.data == nullptr || a.out.data == nullptr) return cudaErrorInvalidValue;
  if (a.time_factor <= 0 || a.height_factor <= 0 || a.width_factor <= 0) return cudaErrorInvalidValue;
  const int64_t frames = a.frames + (a.repeat_first ? 1 : 0);
  const int64_t values = a.channels * a.time_factor * a.height_factor * a.width_factor;
  const bool divides = frames % a.time_factor == 0 && a.height % a.height_factor == 0 &&
                       a.width % a.width_factor == 0 && values % a.mean_of == 0;
  if (!divides) return cudaErrorInvalidValue;
  const Extents to{frames / a.time_factor, a.height / a.height_factor, a.width / a.width_factor, values / a.mean_of};
  return a.x.type == Type::kBf16 ? LaunchFrom<bf16>(a, to, stream) : LaunchFrom<float>(a, to, stream);
}

}  // namespace kinora::kernels
