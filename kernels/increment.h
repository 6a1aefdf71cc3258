// Counters on the device, with which a replayed graph counts its replays.
#ifndef KINORA_KERNELS_INCREMENT_H_
#define KINORA_KERNELS_INCREMENT_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// Adds one to each of counters [count]. Returns cudaErrorInvalidValue if there are none or more than 1024.
cudaError_t LaunchIncrement(int32_t* counters, int64_t count, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_INCREMENT_H_
