// Records when calls of other libraries ran, by the device's own clock: one stamp before and one after each call.
#ifndef KINORA_KERNELS_STAMP_H_
#define KINORA_KERNELS_STAMP_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// Pinned memory, with the same addresses on host and device, that the host may read at any time. Calls must not
// overlap.
struct Stamps {
  unsigned long long* calls;        // [1]: number of calls that have ended
  unsigned long long* nanoseconds;  // [2 * kept]: the n-th call began at [2 * (n % kept)] and ended at the next element
  int64_t kept;
};

// Stamp the call that is enqueued between the two launches, or replayed with them in a graph. A reader that loads
// `calls` with acquire order then sees the stamps of those calls, of which the last `kept` are stored. Return
// cudaErrorInvalidValue if there is no memory to write to.
cudaError_t LaunchBeginStamp(const Stamps& stamps, cudaStream_t stream);
cudaError_t LaunchEndStamp(const Stamps& stamps, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_STAMP_H_
