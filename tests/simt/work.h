// Test only: enqueued work, streams, events, captures and graphs of the simulated device.
//
// Work is lazy. It runs at a synchronisation, or sooner by chance, in any order that streams, events and graphs allow.
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
  const char* library = nullptr;  // the name of a library's call, which is one kernel here
  dim3 grid{}, block{};
  const void* stream = nullptr;
  bool early = false;  // LaunchEarly
  bool waits = false;  // for other processes: does not run by chance
  bool done = false;
  char token = 0;          // stands for its end
  double finished_at = 0;  // ms
};
struct SimtCapture {
  std::vector<SimtNode> nodes{};
  std::vector<cudaStream_t> streams{};
  bool broken = false;
};
struct CUstream_st {
  SimtNode tail{};
  std::vector<SimtNode> waits{};  // of the next piece of work
  std::shared_ptr<SimtCapture> capture{};
  SimtNode tail_before{};  // the capture
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
  // Behind all that the stream holds, or into its capture.
  cudaError_t Enqueue(cudaStream_t stream, CUgraphNode_st work, SimtNode* enqueued = nullptr);
  // Until it is done.
  cudaError_t Finish(const SimtNode& node);
  cudaError_t FinishAll();
  // Sooner by chance.
  void RunSome();
  // One piece at least, if there is any: for calls by which a host waits.
  void RunAtLeastOne();
  void RunGraph(const std::vector<SimtNode>& nodes);
  // Breaks the stream's capture.
  cudaError_t Refuse(cudaStream_t stream);
  // For what may not be called while this thread captures, unless its mode is relaxed: an error then, and its captures
  // are broken.
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

// Of the kernel that runs, if its launch was early: what stands for the ends of all that comes before it.
const std::vector<char*>& NotWaitedFor();

// The first thing in each function: the answer of FailCall, then that of a lost device.
cudaError_t BeginCall(const char* function);

#define SIMT_CALL()                               \
  const ::kinora::simt::DeviceLock simt_lock;     \
  const ::kinora::simt::Unwatched simt_unwatched; \
  if (const cudaError_t simt_error = ::kinora::simt::BeginCall(__func__); simt_error != cudaSuccess) return simt_error

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_WORK_H_
