// Conversion of CUDA's errors to Status.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_STATUS_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include <string_view>

#include "absl/status/status.h"

namespace kinora {

// Returns OK for cudaSuccess, ResourceExhausted if memory is short, Aborted if the device is lost and the process must
// restart, and Internal otherwise. The message contains `what` and CUDA's own text.
absl::Status CudaStatus(cudaError_t error, std::string_view what);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_STATUS_H_
