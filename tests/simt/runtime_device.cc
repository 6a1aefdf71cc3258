// The CUDA runtime's device functions, under the toolkit's own prototypes. Compiled without -fsanitize=thread.
#include <cstdio>
#include <cstring>

#include "tests/simt/device_memory.h"
#include "tests/simt/device_properties.h"
#include "tests/simt/work.h"

namespace kinora::simt {
namespace {

// Limits by compute capability from NVIDIA's programming guide; sizes from the data sheets.
struct ModelLimits {
  const char* name;
  int major, minor, multiprocessors, threads_per_multiprocessor;
  size_t shared_per_block, shared_per_multiprocessor;
  int l2_bytes;
};
constexpr ModelLimits kModels[] = {
    {"simulated H100", 9, 0, 132, 2048, 227 << 10, 228 << 10, 50 << 20},
    {"simulated A100", 8, 0, 108, 2048, 163 << 10, 164 << 10, 40 << 20},
    {"simulated L40S", 8, 9, 142, 1536, 99 << 10, 100 << 10, 96 << 20},
    {"simulated B200", 10, 0, 148, 2048, 227 << 10, 228 << 10, 126 << 20},
    {"simulated B300", 10, 3, 148, 2048, 227 << 10, 228 << 10, 126 << 20},
    {"simulated GB10", 12, 1, 48, 1536, 99 << 10, 100 << 10, 24 << 20},
};

struct Driver {
  cudaError_t answer = cudaSuccess;
  int version = CUDART_VERSION;
};
Driver driver;

cudaDeviceProp PropertiesOf(const ModelLimits& limits) {
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof p.name, "%s", limits.name);
  p.major = limits.major;
  p.minor = limits.minor;
  p.multiProcessorCount = limits.multiprocessors;
  p.maxThreadsPerMultiProcessor = limits.threads_per_multiprocessor;
  p.totalGlobalMem = DeviceMemory::Get().total();
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerBlockOptin = limits.shared_per_block;
  p.sharedMemPerMultiprocessor = limits.shared_per_multiprocessor;
  p.reservedSharedMemPerBlock = 1 << 10;
  p.regsPerBlock = p.regsPerMultiprocessor = 64 << 10;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 0xffff;
  p.maxBlocksPerMultiProcessor = 32;
  p.l2CacheSize = limits.l2_bytes;
  p.unifiedAddressing = p.concurrentKernels = 1;
  return p;
}

cudaDeviceProp& Chosen() {
  static auto* const properties = new cudaDeviceProp(PropertiesOf(kModels[0]));
  return *properties;
}

}  // namespace

const cudaDeviceProp& Properties() { return Chosen(); }

void SetDevice(Model model, int64_t memory_bytes) {
  const DeviceLock lock;
  const Unwatched unwatched;
  DeviceMemory::Get().set_total(memory_bytes);
  Chosen() = PropertiesOf(kModels[static_cast<int>(model)]);
}

void SetDriver(cudaError_t answer, int version) { driver = {answer, version}; }

}  // namespace kinora::simt

using namespace kinora::simt;  // NOLINT(google-build-using-namespace)

cudaError_t cudaGetDeviceCount(int* count) {
  *count = driver.answer == cudaSuccess ? 1 : 0;
  return driver.answer;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return driver.answer;
}

cudaError_t cudaSetDevice(int device) {
  if (driver.answer != cudaSuccess) return driver.answer;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver.version;  // 0: no driver
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  SIMT_CALL();
  if (device != 0) return cudaErrorInvalidDevice;
  *properties = Properties();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  SIMT_CALL();
  if (device != 0) return cudaErrorInvalidDevice;
  const cudaDeviceProp& p = Properties();
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;  // add an attribute when the engine needs it
  }
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  SIMT_CALL();
  *free_bytes = DeviceMemory::Get().total() - DeviceMemory::Get().used();
  *total_bytes = DeviceMemory::Get().total();
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  SIMT_CALL();
  return Device().FinishAll();
}

cudaError_t cudaGetLastError() {
  SIMT_CALL();
  return cudaSuccess;
}

cudaError_t cudaPeekAtLastError() { return cudaGetLastError(); }

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess              ? "cudaSuccess"
         : error == cudaErrorLaunchFailure ? "cudaErrorLaunchFailure"
                                           : "cudaError";
}

const char* cudaGetErrorString(cudaError_t error) {
  static thread_local char text[1024];
  if (error == cudaSuccess) return "no error";
  const std::string why = Failure();
  if (error == cudaErrorLaunchFailure && !why.empty()) {
    std::snprintf(text, sizeof text, "unspecified launch failure: %s", why.c_str());
  } else {
    std::snprintf(text, sizeof text, "CUDA error %d", static_cast<int>(error));
  }
  return text;
}
