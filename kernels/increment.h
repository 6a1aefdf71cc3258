// Counters on the device: what tells a graph that is launched again which time it is.
#ifndef KINORA_KERNELS_INCREMENT_H_
#define KINORA_KERNELS_INCREMENT_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace kinora::kernels {

// Each of counters [count] becomes one more. cudaErrorInvalidValue: none, or more than 1024.
cudaError_t LaunchIncrement(int32_t* counters, int64_t count, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_INCREMENT_H_
