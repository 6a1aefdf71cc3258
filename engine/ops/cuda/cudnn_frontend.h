// NVIDIA's cuDNN behind the seam of cudnn.h, through the header-only cudnn-frontend.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_

#include <memory>
#include <string>

#include "engine/ops/cuda/cudnn.h"

namespace kinora {

struct CudnnFrontendOptions {
  std::string library = "libcudnn.so.9";  // as dlopen finds it
  // "": plans are for the current device. Else for the one that this JSON describes, in the terms of cuDNN's device
  // properties; such plans are built without a device, and cannot run.
  std::string device_json;
};

// FailedPrecondition: no library, or one before 9.8; the message names it and what to do.
absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnnFrontend(const CudnnFrontendOptions& options);

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_FRONTEND_H_
