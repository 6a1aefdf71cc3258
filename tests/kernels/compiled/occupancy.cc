// Computes blocks per multiprocessor with the toolkit's own rules, without a device. Reads lines of five numbers:
// architecture (80, 90, …), threads per block, registers per thread, bytes of static and of dynamic shared memory.
// Prints the number of blocks for each line, 0 if none fits.
#include <cuda_occupancy.h>

#include <cstdio>

namespace {

// From NVIDIA's programming guide, by compute capability.
struct Architecture {
  int number, threads;                         // threads per multiprocessor
  size_t block_shared, multiprocessor_shared;  // KiB
};
constexpr Architecture kArchitectures[] = {
    {80, 2048, 163, 164}, {90, 2048, 227, 228}, {100, 2048, 227, 228}, {120, 1536, 99, 100}};

cudaOccDeviceProp DeviceOf(const Architecture& a) {
  cudaOccDeviceProp device;
  device.computeMajor = a.number / 10;
  device.computeMinor = a.number % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = a.threads;
  device.regsPerBlock = device.regsPerMultiprocessor = 64 << 10;
  device.warpSize = 32;
  device.numSms = 1;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = a.multiprocessor_shared << 10;
  device.sharedMemPerBlockOptin = a.block_shared << 10;
  device.reservedSharedMemPerBlock = 1 << 10;
  return device;
}

int Blocks(const Architecture& a, int threads, int registers, size_t fixed, size_t dynamic) {
  const cudaOccDeviceProp device = DeviceOf(a);
  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = 1024;
  kernel.numRegs = registers;
  kernel.sharedSizeBytes = fixed;
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.maxDynamicSharedSizeBytes = dynamic;
  kernel.numBlockBarriers = 1;
  const cudaOccDeviceState state;
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic) != CUDA_OCC_SUCCESS)
    return 0;
  return result.activeBlocksPerMultiprocessor;
}

}  // namespace

int main() {
  int number = 0, threads = 0, registers = 0;
  size_t fixed = 0, dynamic = 0;
  while (std::scanf("%d %d %d %zu %zu", &number, &threads, &registers, &fixed, &dynamic) == 5) {
    int blocks = 0;
    for (const Architecture& a : kArchitectures) {
      if (a.number == number) blocks = Blocks(a, threads, registers, fixed, dynamic);
    }
    std::printf("%d\n", blocks);
  }
}
