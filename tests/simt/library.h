// Test only: how a library that stands for NVIDIA's (cuBLASLt, cuDNN) puts its calls on a stream of the simulated
// device.
#ifndef KINORA_TESTS_SIMT_LIBRARY_H_
#define KINORA_TESTS_SIMT_LIBRARY_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kinora::simt {

// `rows` runs of `bytes`, `stride` bytes apart, that a call reads or writes.
struct Access {
  const void* begin = nullptr;
  int64_t bytes = 0;
  int64_t rows = 1, stride = 0;
  bool written = false;
};

// One kernel of that name behind all that the stream holds, or in its capture. When it runs, the accesses are held to
// the device's allocations and told to AddressSanitizer and ThreadSanitizer, before `work`, which needs no
// instrumentation: one that leaves its allocation loses the device.
cudaError_t EnqueueLibrary(cudaStream_t stream, const char* name, std::vector<Access> accesses,
                           std::function<void()> work);

// The name that EnqueueLibrary was given; null: a node of another kind.
const char* LibraryCall(cudaGraphNode_t node);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_LIBRARY_H_
