// Properties of the CUDA backend that planning needs. Part of every build, so that clips can be planned without a
// device.
#ifndef KINORA_ENGINE_OPS_CUDA_TRAITS_H_
#define KINORA_ENGINE_OPS_CUDA_TRAITS_H_

#include <cstddef>
#include <cstdint>

#include "engine/ops/weight.h"

namespace kinora {

// f32 and bf16, row after row: [out, taps · in] with rows rounded up to kWeightRowAlignment bytes.
const WeightLayout& CudaWeightLayout();
inline constexpr int64_t kWeightRowAlignment = 16;

// Reserved for each of the backend's two streams when it is opened, in addition to weights and arenas.
inline constexpr int64_t kProductWorkspaceBytes = int64_t{64} << 20;  // for cuBLASLt and cuDNN
inline constexpr int64_t kScratchBytes = int64_t{256} << 20;          // for intermediate results of ops

// Allocated by the driver itself after that: graphs of captured steps (engine/pipeline/step_graphs.h keeps 16, of some
// 3,000 kernels each), and the code of kernels and libraries, which is loaded when it is first called. An allowance,
// not a measurement.
inline constexpr int64_t kDriverBytes = int64_t{768} << 20;

// Memory for plans of cuDNN (engine/ops/cuda/cudnn_plans.h): 256 of them. Nearly all of it is the host's; on the
// device, plans take kernels' code only, which is part of kDriverBytes.
inline constexpr int64_t kMostPlanBytes = int64_t{384} << 20;

// The library with which cuDNN compiles its attention. cuDNN opens it itself.
inline constexpr char kNvrtcLibrary[] = "libnvrtc.so.13";
inline constexpr char kCudnnLibrary[] = "libcudnn.so.9";
// 9.15, in cuDNN's numbering. 9.8 to 9.14 compute wrong bf16 convolutions of large videos, without an error
// (https://github.com/pytorch/pytorch/issues/163539).
inline constexpr size_t kLeastCudnnVersion = 91500;

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_TRAITS_H_
