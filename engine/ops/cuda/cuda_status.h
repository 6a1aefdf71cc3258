// What CUDA's answers mean to the engine.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_STATUS_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include <string_view>

#include "absl/status/status.h"

namespace kinora {

// OK for cudaSuccess. ResourceExhausted where memory is short, Unavailable where the device is lost and the process
// must start anew, Internal otherwise; the message: what, then CUDA's own words.
absl::Status CudaStatus(cudaError_t error, std::string_view what);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_STATUS_H_
