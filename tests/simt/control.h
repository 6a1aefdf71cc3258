// Test only: functions with which tests control and inspect the simulated device.
#ifndef KINORA_TESTS_SIMT_CONTROL_H_
#define KINORA_TESTS_SIMT_CONTROL_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace kinora::simt {

// Draws every order that CUDA leaves open from `seed`: threads of a block, blocks, streams, branches of a graph, late
// copies. With random_order false, work runs in the order in which it was enqueued or numbered.
void Seed(uint64_t seed, bool random_order = true);

// While on, a host access to device memory ends the process at that instruction (SIGSEGV). Kernels and copies may
// access it.
void GuardDevice(bool on);

// Returns the reason for which the device was lost first, or "" if it is not lost.
std::string Failure();
// Replaces a lost device by a new one. Memory and streams stay valid.
void Restore();

// Counts since the process started or ResetCounts was called.
struct Counts {
  // Work that ran: kernels (including those of graphs), their blocks and threads, and switches between threads.
  uint64_t kernels = 0, blocks = 0, threads = 0, switches = 0;
  uint64_t shared_copies = 0;  // asynchronous copies to shared memory, of 16 bytes each
  // Calls by the host.
  uint64_t launches = 0;  // kernels launched outside graphs and captures
  uint64_t graph_launches = 0;
  uint64_t synchronizations = 0;  // waits for streams, events or the device, in cudaFree, and in pageable copies
  uint64_t host_copies = 0;       // between host and device
  uint64_t bytes_to_host = 0;     // by host_copies
  uint64_t allocations = 0;       // of device and pinned memory
  uint64_t captures = 0;
};
Counts Counted();
void ResetCounts();

// Devices whose different limits affect which kernels are chosen.
enum class Model : uint8_t { kH100, kA100, kL40S, kB200, kB300, kGB10 };
// Selects the simulated device and its memory size. Must be called before the device is first used. [kH100, 80 GB]
void SetDevice(Model model, int64_t memory_bytes);
// Makes cudaGetDeviceCount return `answer`, as on a machine without a usable driver; cudaSuccess restores the default.
// version 0: no driver.
void SetDriver(cudaError_t answer, int version);

// Makes a call of the API function `name` ("cudaMalloc", "cudaGraphLaunch"; "kernel" for a launch) return `error`,
// after `after` calls that run normally.
void FailCall(const std::string& name, cudaError_t error, int after = 0);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CONTROL_H_
