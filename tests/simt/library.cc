#include "tests/simt/library.h"

#include <string>
#include <utility>

#include "tests/simt/device_memory.h"
#include "tests/simt/work.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#ifdef KINORA_SIMT_TSAN
extern "C" {
void __tsan_read_range(void* begin, unsigned long bytes);
void __tsan_write_range(void* begin, unsigned long bytes);
}
#endif

namespace kinora::simt {
namespace {

// Reports an access to the sanitizers as if the call's own code had made it.
void Tell([[maybe_unused]] char* begin, [[maybe_unused]] int64_t bytes, [[maybe_unused]] bool written) {
#if defined(__SANITIZE_ADDRESS__)
  if (void* const bad = __asan_region_is_poisoned(begin, bytes); bad != nullptr) {
    const volatile char touched = *static_cast<volatile char*>(bad);  // the report shows the stack
    static_cast<void>(touched);
  }
#elif defined(KINORA_SIMT_TSAN)
  written ? __tsan_write_range(begin, bytes) : __tsan_read_range(begin, bytes);
#endif
}

bool Hold(const char* name, const Access& access) {
  if (access.bytes <= 0 || access.rows <= 0) return true;
  auto* const begin = static_cast<char*>(const_cast<void*>(access.begin));
  const int64_t extent = (access.rows - 1) * access.stride + access.bytes;
  if (!DeviceMemory::Get().Allocated(begin, extent)) {
    LoseDevice(std::string(name) + (access.written ? " writes" : " reads") + " outside of an allocation");
    return false;
  }
  for (int64_t row = 0; row < access.rows; ++row) Tell(begin + row * access.stride, access.bytes, access.written);
  return true;
}

cudaError_t EnqueueNode(cudaStream_t stream, const char* name, std::vector<Access> accesses, std::function<void()> work,
                        bool waits) {
  const DeviceLock lock;
  const Unwatched unwatched;
  if (const cudaError_t error = BeginCall("kernel"); error != cudaSuccess) return error;
  if (stream != nullptr && stream->capture == nullptr) ++Counters().launches;
  CUgraphNode_st node{.type = cudaGraphNodeTypeKernel, .library = name, .waits = waits};
  node.work = [name, accesses = std::move(accesses), work = std::move(work)] {
    ++Counters().kernels;
    for (const Access& access : accesses) {
      if (!Hold(name, access)) return;
    }
    const Unwatched arithmetic;  // on a stack that the host reuses; memcpy is always instrumented
    work();
  };
  return Device().Enqueue(stream, std::move(node));
}

}  // namespace

cudaError_t EnqueueLibrary(cudaStream_t stream, const char* name, std::vector<Access> accesses,
                           std::function<void()> work) {
  return EnqueueNode(stream, name, std::move(accesses), std::move(work), /*waits=*/false);
}

cudaError_t EnqueueWaiting(cudaStream_t stream, const char* name, std::vector<Access> accesses,
                           std::function<void()> work) {
  return EnqueueNode(stream, name, std::move(accesses), std::move(work), /*waits=*/true);
}

const char* LibraryCall(cudaGraphNode_t node) { return node->library; }

}  // namespace kinora::simt
