// The CUDA runtime's capture and graph functions, under the toolkit's own prototypes. Compiled without
// -fsanitize=thread.
#include <algorithm>
#include <set>
#include <utility>

#include "tests/simt/work.h"

using namespace kinora::simt;  // NOLINT(google-build-using-namespace)

namespace {

// All nodes on which the end of `stream` depends.
std::set<const CUgraphNode_st*> Joined(const CUstream_st& stream) {
  std::set<const CUgraphNode_st*> joined;
  std::vector<SimtNode> walk = stream.waits;
  if (stream.tail != nullptr) walk.push_back(stream.tail);
  while (!walk.empty()) {
    const SimtNode node = std::move(walk.back());
    walk.pop_back();
    if (joined.insert(node.get()).second) walk.insert(walk.end(), node->after.begin(), node->after.end());
  }
  return joined;
}

cudaError_t EndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::shared_ptr<SimtCapture> capture = stream->capture;
  *graph = nullptr;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->streams[0] != stream) return cudaErrorStreamCaptureUnmatched;
  WorkQueue::EndCapture(capture.get());
  const std::set<const CUgraphNode_st*> joined = Joined(*stream);
  bool whole = true;
  for (const cudaStream_t other : capture->streams) {
    whole &= other->tail == nullptr || joined.contains(other->tail.get());
    other->tail = std::exchange(other->tail_before, nullptr);
    other->waits.clear();
    other->capture = nullptr;
  }
  if (capture->broken) return cudaErrorStreamCaptureInvalidated;
  if (!whole) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{capture->nodes};
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  SIMT_CALL();
  if (mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;  // other modes affect other threads
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  ++Counters().captures;
  stream->capture = std::make_shared<SimtCapture>();
  stream->capture->streams = {stream};
  stream->tail_before = std::exchange(stream->tail, nullptr);
  WorkQueue::BeginCapture(stream->capture.get());
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  SIMT_CALL();
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->broken  ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const DeviceLock lock;
  const Unwatched unwatched;
  const cudaError_t failure = BeginCall(__func__);
  const cudaError_t ended = EndCapture(stream, graph);  // whatever it returns, the capture is over
  if (failure == cudaSuccess) return ended;
  delete std::exchange(*graph, nullptr);
  return failure;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  SIMT_CALL();
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t /*executable*/, cudaStream_t /*stream*/) {
  SIMT_CALL();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  SIMT_CALL();
  ++Counters().graph_launches;
  CUgraphNode_st node{.type = cudaGraphNodeTypeGraph};
  node.waits =
      std::any_of(executable->nodes.begin(), executable->nodes.end(), [](const SimtNode& each) { return each->waits; });
  node.work = [nodes = executable->nodes] { Device().RunGraph(nodes); };
  return Device().Enqueue(stream, std::move(node));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const DeviceLock lock;
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const DeviceLock lock;
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  SIMT_CALL();
  if (nodes != nullptr) {
    *count = std::min(*count, graph->nodes.size());
    for (size_t i = 0; i < *count; ++i) nodes[i] = graph->nodes[i].get();
  } else {
    *count = graph->nodes.size();
  }
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  SIMT_CALL();
  *type = node->type;
  return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  SIMT_CALL();
  if (node->type != cudaGraphNodeTypeKernel) return cudaErrorInvalidValue;
  *params = {};
  params->func = const_cast<void*>(node->kernel);
  params->gridDim = node->grid;
  params->blockDim = node->block;
  return cudaSuccess;
}
