// When calls that are not ours ran, by the device's own clock: a stamp before one and a stamp behind it.
#ifndef KINORA_KERNELS_STAMP_H_
#define KINORA_KERNELS_STAMP_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// Memory that the host may read at any time (pinned, of which every address is the device's too). One at a time writes.
struct Stamps {
  unsigned long long* calls;        // [1]: ended so far
  unsigned long long* nanoseconds;  // [2 * kept]: the n-th call began at [2 * (n % kept)] and ended at the next
  int64_t kept;
};

// The call that is enqueued between the two, or replayed with them in a graph. Whoever reads a number of calls
// (acquire) then finds their stamps, the last `kept`. cudaErrorInvalidValue: nothing to write to.
cudaError_t LaunchBeginStamp(const Stamps& stamps, cudaStream_t stream);
cudaError_t LaunchEndStamp(const Stamps& stamps, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_STAMP_H_
