// Test only: what a test sets and asks of the simulated device.
#ifndef KINORA_TESTS_SIMT_CONTROL_H_
#define KINORA_TESTS_SIMT_CONTROL_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace kinora::simt {

// Where order is free it is drawn from `seed`: threads of a block, blocks, streams, branches of a graph, late copies.
// random_order false: as enqueued and numbered.
void Seed(uint64_t seed, bool random_order = true);

// While on, the host may not touch device memory: it dies at that instruction (SIGSEGV). Kernels and copies may.
void GuardDevice(bool on);

// Why the device is lost, as its first failure says; "": it is not.
std::string Failure();
// A new device in place of a lost one; memory and streams go on being valid.
void Restore();

// Since the start of the process or ResetCounts.
struct Counts {
  // Work that ran: kernels (those of graphs too), their blocks, threads, and switches between threads.
  uint64_t kernels = 0, blocks = 0, threads = 0, switches = 0;
  // Calls of the host.
  uint64_t launches = 0;  // of kernels outside graphs and captures
  uint64_t graph_launches = 0;
  uint64_t synchronizations = 0;  // waits for the device: of streams, events, everything, cudaFree, pageable copies
  uint64_t host_copies = 0;       // between host and device
  uint64_t bytes_to_host = 0;     // of those copies
  uint64_t allocations = 0;       // of device or pinned memory
  uint64_t captures = 0;
};
Counts Counted();
void ResetCounts();

// Devices whose limits differ where kernels must choose.
enum class Model : uint8_t { kH100, kA100, kL40S, kB200 };
// Which device there is, with how much memory; before it is first used. [kH100, 80 GB]
void SetDevice(Model model, int64_t memory_bytes);
// As a machine without a usable driver answers cudaGetDeviceCount; cudaSuccess: as usual. version 0: no driver.
void SetDriver(cudaError_t answer, int version);

// The next call of the API's function `name` ("cudaMalloc", "cudaGraphLaunch", "kernel": a launch) answers `error`;
// the `after` calls before it do what they do.
void FailCall(const std::string& name, cudaError_t error, int after = 0);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_CONTROL_H_
