// Kernel launches: the checks that a real device makes, and one that it cannot make.
#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "tests/simt/device_memory.h"
#include "tests/simt/device_properties.h"
#include "tests/simt/executor.h"
#include "tests/simt/work.h"

namespace kinora::simt {
namespace {

bool Mapped(uintptr_t word) {
  constexpr uintptr_t kPage = 4096;
  return msync(reinterpret_cast<void*>(word / kPage * kPage), 1, MS_ASYNC) == 0;
}

bool Fits(const LaunchShape& shape) {
  const dim3 &grid = shape.grid, &block = shape.block;
  const cudaDeviceProp& p = Properties();
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const auto limit = [](int value) { return static_cast<unsigned>(value); };
  return threads > 0 && threads <= limit(p.maxThreadsPerBlock) && block.z <= limit(p.maxThreadsDim[2]) && grid.x > 0 &&
         grid.y > 0 && grid.z > 0 && grid.x <= limit(p.maxGridSize[0]) && grid.y <= limit(p.maxGridSize[1]) &&
         grid.z <= limit(p.maxGridSize[2]) && shape.shared <= p.sharedMemPerBlockOptin;
}

}  // namespace

// Integers may look like an address. Checks only address ranges of programs, heaps and stacks, and only mapped pages.
void CheckArgument(const void* argument, size_t bytes) {
  const DeviceLock lock;
  const Unwatched unwatched;
  const DeviceMemory& memory = DeviceMemory::Get();
  for (size_t i = 0; i + sizeof(uintptr_t) <= bytes; i += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, static_cast<const char*>(argument) + i, sizeof word);
    const void* const p = reinterpret_cast<const void*>(word);
    if (word >> 40 < 0x55 || word >> 40 > 0x7f || memory.OnDevice(p) || memory.Pinned(p, 1)) continue;
    if (Mapped(word)) LoseDevice("an argument of a kernel points to host memory");
  }
}

cudaError_t Start(const LaunchShape& shape, cudaStream_t stream, const void* kernel, std::function<void()> body) {
  const DeviceLock lock;
  const Unwatched unwatched;
  if (const cudaError_t error = BeginCall("kernel"); error != cudaSuccess) return error;
  if (!Fits(shape)) return cudaErrorInvalidConfiguration;
  if (stream != nullptr && stream->capture == nullptr) ++Counters().launches;
  CUgraphNode_st node{.type = cudaGraphNodeTypeKernel,
                      .kernel = kernel,
                      .grid = shape.grid,
                      .block = shape.block,
                      .early = shape.early};
  node.work = [=, body = std::move(body)] { Executor::Get().Run({.shape = shape, .stream = stream, .kernel = &body}); };
  return Device().Enqueue(stream, std::move(node));
}

}  // namespace kinora::simt
