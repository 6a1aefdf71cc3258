// Test only: how a library that stands for NVIDIA's (cuBLASLt, cuDNN, NCCL) puts its calls on a stream of the simulated
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
// The same for a call that waits for other processes: it runs when a synchronisation or a query asks for it, never
// sooner by chance, when its host may still have to do what the others wait for.
cudaError_t EnqueueWaiting(cudaStream_t stream, const char* name, std::vector<Access> accesses,
                           std::function<void()> work);

// The name that EnqueueLibrary was given; null: a node of another kind.
const char* LibraryCall(cudaGraphNode_t node);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_LIBRARY_H_
