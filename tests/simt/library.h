// Test only: puts the calls of a simulated NVIDIA library (cuBLASLt, cuDNN, NCCL) on a stream of the simulated device.
#ifndef KINORA_TESTS_SIMT_LIBRARY_H_
#define KINORA_TESTS_SIMT_LIBRARY_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kinora::simt {

// `rows` ranges of `bytes` bytes, `stride` bytes apart, that a call reads or writes.
struct Access {
  const void* begin = nullptr;
  int64_t bytes = 0;
  int64_t rows = 1, stride = 0;
  bool written = false;
};

// Enqueues one kernel with that name on the stream or in its capture. When it runs, it first checks the accesses
// against the device's allocations and reports them to AddressSanitizer and ThreadSanitizer; an access outside an
// allocation loses the device. Then it calls `work`, which needs no instrumentation.
cudaError_t EnqueueLibrary(cudaStream_t stream, const char* name, std::vector<Access> accesses,
                           std::function<void()> work);
// Like EnqueueLibrary, for a call that waits for other processes. It runs only when a synchronisation or query requires
// it, never earlier at random: its host may still have to do something that the other processes wait for.
cudaError_t EnqueueWaiting(cudaStream_t stream, const char* name, std::vector<Access> accesses,
                           std::function<void()> work);

// Returns the name given to EnqueueLibrary, or null for other nodes.
const char* LibraryCall(cudaGraphNode_t node);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_LIBRARY_H_
