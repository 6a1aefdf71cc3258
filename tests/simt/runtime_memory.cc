// The CUDA runtime's memory functions, under the toolkit's own prototypes. Compiled without -fsanitize=thread.
#include <cstring>
#include <utility>

#include "tests/simt/device_memory.h"
#include "tests/simt/work.h"

using namespace kinora::simt;  // NOLINT(google-build-using-namespace)

namespace {

cudaMemcpyKind KindOf(bool to_device, bool from_device) {
  if (to_device) return from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

void CountHostCopy(cudaMemcpyKind kind, size_t bytes) {
  ++Counters().host_copies;
  if (kind == cudaMemcpyDeviceToHost) Counters().bytes_to_host += bytes;
}

}  // namespace

cudaError_t cudaMalloc(void** out, size_t bytes) {
  SIMT_CALL();
  if (const cudaError_t error = WorkQueue::RefuseInCapture(); error != cudaSuccess) return error;
  return DeviceMemory::Get().Allocate(bytes, out);
}

cudaError_t cudaFree(void* memory) {
  SIMT_CALL();
  if (const cudaError_t error = WorkQueue::RefuseInCapture(); error != cudaSuccess) return error;
  if (const cudaError_t error = Device().FinishAll(); error != cudaSuccess) return error;  // it waits for the device
  return DeviceMemory::Get().Free(memory);
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned /*flags*/) {
  SIMT_CALL();
  if (const cudaError_t error = WorkQueue::RefuseInCapture(); error != cudaSuccess) return error;
  return DeviceMemory::Get().AllocatePinned(bytes, out);
}

cudaError_t cudaFreeHost(void* memory) {
  SIMT_CALL();
  if (const cudaError_t error = Device().FinishAll(); error != cudaSuccess) return error;
  return DeviceMemory::Get().FreePinned(memory);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  SIMT_CALL();
  if (const cudaError_t error = WorkQueue::RefuseInCapture(); error != cudaSuccess) return error;
  const DeviceMemory& memory = DeviceMemory::Get();
  const bool to_device = memory.OnDevice(to), from_device = memory.OnDevice(from);
  if (kind != cudaMemcpyDefault && kind != KindOf(to_device, from_device)) return cudaErrorInvalidMemcpyDirection;
  if ((to_device && !memory.Allocated(to, bytes)) || (from_device && !memory.Allocated(from, bytes))) {
    return cudaErrorInvalidValue;
  }
  CountHostCopy(KindOf(to_device, from_device), bytes);
  if (const cudaError_t error = Device().FinishAll(); error != cudaSuccess) return error;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  SIMT_CALL();
  const DeviceMemory& memory = DeviceMemory::Get();
  const bool to_device = memory.OnDevice(to), from_device = memory.OnDevice(from);
  const cudaMemcpyKind actual = KindOf(to_device, from_device);
  if (kind != cudaMemcpyDefault && kind != actual) return cudaErrorInvalidMemcpyDirection;
  if ((to_device && !memory.Allocated(to, bytes)) || (from_device && !memory.Allocated(from, bytes))) {
    return cudaErrorInvalidValue;
  }
  const bool pageable_to = !to_device && !memory.Pinned(to, bytes);
  const bool pageable_from = !from_device && !memory.Pinned(from, bytes);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr && (pageable_from || pageable_to)) return Device().Refuse(stream);
  if (actual != cudaMemcpyDeviceToDevice && stream->capture == nullptr) CountHostCopy(actual, bytes);
  CUgraphNode_st node{.type = cudaGraphNodeTypeMemcpy};
  if (pageable_from) {  // CUDA has read pageable memory when the call returns
    const auto* const begin = static_cast<const char*>(from);
    node.work = [to, kept = std::vector<char>(begin, begin + bytes)] { std::memcpy(to, kept.data(), kept.size()); };
  } else {
    node.work = [=] { std::memcpy(to, from, bytes); };
  }
  SimtNode enqueued;
  const cudaError_t error = Device().Enqueue(stream, std::move(node), &enqueued);
  return error == cudaSuccess && pageable_to ? Device().Finish(enqueued) : error;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  SIMT_CALL();
  if (!DeviceMemory::Get().Allocated(to, bytes)) return cudaErrorInvalidValue;
  CUgraphNode_st node{.type = cudaGraphNodeTypeMemset};
  node.work = [=] { std::memset(to, value, bytes); };
  return Device().Enqueue(stream, std::move(node));
}
