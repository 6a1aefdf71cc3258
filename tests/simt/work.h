// Test only: enqueued work, streams, events, captures and graphs of the simulated device.
//
// Work is lazy: it runs at a synchronisation, or earlier at random, in any order that streams, events and graphs allow.
#ifndef KINORA_TESTS_SIMT_WORK_H_
#define KINORA_TESTS_SIMT_WORK_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/device_state.h"
#include "tests/simt/fiber.h"

using SimtNode = std::shared_ptr<struct CUgraphNode_st>;
// The toolkit's handles point to these.
struct CUgraphNode_st {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::function<void()> work{};
  std::vector<SimtNode> after{};
  const void* kernel = nullptr;
  const char* library = nullptr;  // name of a library call, which is one kernel here
  dim3 grid{}, block{};
  const void* stream = nullptr;
  bool early = false;  // LaunchEarly
  bool waits = false;  // for other processes; never runs at random
  bool done = false;
  char token = 0;          // identifies its end to ThreadSanitizer
  double finished_at = 0;  // ms
};
struct SimtCapture {
  std::vector<SimtNode> nodes{};
  std::vector<cudaStream_t> streams{};
  bool broken = false;
};
struct CUstream_st {
  SimtNode tail{};
  std::vector<SimtNode> waits{};  // dependencies of the next enqueued work
  std::shared_ptr<SimtCapture> capture{};
  SimtNode tail_before{};  // the tail before the capture began
};
struct CUevent_st {
  SimtNode at{};
  std::shared_ptr<SimtCapture> capture{};
};
struct CUgraph_st {
  std::vector<SimtNode> nodes{};
};
struct CUgraphExec_st {
  std::vector<SimtNode> nodes{};
};

namespace kinora::simt {

class WorkQueue {
 public:
  // Appends work to the stream or its capture.
  cudaError_t Enqueue(cudaStream_t stream, CUgraphNode_st work, SimtNode* enqueued = nullptr);
  // Runs work until `node` is done.
  cudaError_t Finish(const SimtNode& node);
  cudaError_t FinishAll();
  // Runs a random amount of pending work.
  void RunSome();
  // Runs at least one pending node, if any. For calls with which a host polls.
  void RunAtLeastOne();
  // Drops pending work: that of a lost device never runs.
  void Drop();
  void RunGraph(const std::vector<SimtNode>& nodes);
  // Invalidates the stream's capture and returns an error.
  cudaError_t Refuse(cudaStream_t stream);
  // For calls that are not allowed while this thread captures unless its mode is relaxed: returns an error then, and
  // invalidates this thread's captures.
  static cudaError_t RefuseInCapture();
  static cudaStreamCaptureMode& ModeOfThisThread();
  static void BeginCapture(SimtCapture* capture);  // of this thread
  static void EndCapture(SimtCapture* capture);

 private:
  static bool MayRun(const CUgraphNode_st& node);
  void RunOne();
  static void RunNode(CUgraphNode_st& node, char* token, const std::vector<char*>& after);

  std::vector<SimtNode> pending_;
};
WorkQueue& Device();

// If the running kernel was launched early: the tokens of the work before it. Otherwise empty.
const std::vector<char*>& NotWaitedFor();

// Every API function calls this first. Returns the error set by FailCall, or that of a lost device.
cudaError_t BeginCall(const char* function);

#define SIMT_CALL()                               \
  const ::kinora::simt::DeviceLock simt_lock;     \
  const ::kinora::simt::Unwatched simt_unwatched; \
  if (const cudaError_t simt_error = ::kinora::simt::BeginCall(__func__); simt_error != cudaSuccess) return simt_error

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_WORK_H_
