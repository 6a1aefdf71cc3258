#include "kernels/device/device.h"
#include "kernels/increment.h"

namespace kinora::kernels {
namespace {

constexpr int64_t kMaxCounters = 1024;  // one thread each, in one block

__global__ void Increment(int32_t* counters) {
  WaitForPrevious();
  ++counters[threadIdx.x];
}

}  // namespace

cudaError_t LaunchIncrement(int32_t* counters, int64_t count, cudaStream_t stream) {
  if (counters == nullptr || count <= 0 || count > kMaxCounters) return cudaErrorInvalidValue;
  return LaunchEarly(Increment, 1, static_cast<unsigned>(count), 0, stream, counters);
}

}  // namespace kinora::kernels
