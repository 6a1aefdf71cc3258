// cudnn.h implemented by NVIDIA's cuDNN, through the header-only cudnn-frontend.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_

#include <memory>
#include <string>

#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda_traits.h"

namespace kinora {

struct CudnnFrontendOptions {
  std::string library = kCudnnLibrary;  // as dlopen finds it
  std::string nvrtc = kNvrtcLibrary;    // as cuDNN finds it
  // Empty: plans are for the current device. Otherwise for the device that this JSON describes in the terms of cuDNN's
  // device properties; such plans are built without a device and cannot run.
  std::string device_json;
};

// Fails with FailedPrecondition if the library is missing or older than kLeastCudnnVersion; the message names it and
// says what to do. If NVRTC is missing, logs the warning `nvrtc_missing`: cuDNN then has no engine for attention.
absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnnFrontend(const CudnnFrontendOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_
