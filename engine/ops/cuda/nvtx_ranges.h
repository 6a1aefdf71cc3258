#ifndef KINORA_ENGINE_OPS_CUDA_NVTX_RANGES_H_
#define KINORA_ENGINE_OPS_CUDA_NVTX_RANGES_H_

namespace kinora {

// Sends this process's ranges (engine/base/range_sink.h) to NVTX, as "step 3" in the domain "kinora", if a profiler has
// attached itself to NVTX. Otherwise, and in builds without NVTX's headers (no_nvtx_ranges.cc), does nothing. Only the
// first call has an effect. Thread-safe.
void SendRangesToNvtx();

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_NVTX_RANGES_H_
