// cudnn.h implemented by NVIDIA's cuDNN, through the header-only cudnn-frontend.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_

#include <memory>
#include <string>

#include "engine/ops/cuda/cudnn.h"

namespace kinora {

struct CudnnFrontendOptions {
  std::string library = "libcudnn.so.9";  // as dlopen finds it
  // Empty: plans are for the current device. Otherwise for the device that this JSON describes in the terms of cuDNN's
  // device properties; such plans are built without a device and cannot run.
  std::string device_json;
};

// Fails with FailedPrecondition if the library is missing or older than 9.8; the message names it and says what to do.
absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnnFrontend(const CudnnFrontendOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_
