// The CUDA runtime's stream and event functions, under the toolkit's own prototypes. Compiled without
// -fsanitize=thread.
#include <utility>

#include "tests/simt/work.h"

using namespace kinora::simt;  // NOLINT(google-build-using-namespace)

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  SIMT_CALL();
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;  // blocking streams wait for the default stream
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const DeviceLock lock;
  const Unwatched unwatched;
  if (!Lost()) Device().Finish(stream->tail);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  SIMT_CALL();
  if (stream->capture != nullptr) return Device().Refuse(stream);
  return Device().Finish(stream->tail);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  SIMT_CALL();
  if (stream->capture != nullptr) return Device().Refuse(stream);
  Device().RunAtLeastOne();
  if (Lost()) return cudaErrorLaunchFailure;
  if (stream->tail != nullptr && !stream->tail->done) return cudaErrorNotReady;
  if (stream->tail != nullptr) Acquire(&stream->tail->token);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  SIMT_CALL();
  CUgraphNode_st node{.type = cudaGraphNodeTypeHost};
  node.work = [=] { function(data); };
  return Device().Enqueue(stream, std::move(node));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  SIMT_CALL();
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const DeviceLock lock;
  const Unwatched unwatched;
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  SIMT_CALL();
  const cudaError_t error = Device().Enqueue(stream, {});
  event->at = stream->tail;
  event->capture = stream->capture;
  return error;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  SIMT_CALL();
  Device().RunAtLeastOne();
  if (Lost()) return cudaErrorLaunchFailure;
  if (event->at != nullptr && !event->at->done) return cudaErrorNotReady;
  if (event->at != nullptr) Acquire(&event->at->token);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  SIMT_CALL();
  if (event->capture != nullptr) return cudaErrorInvalidValue;
  return Device().Finish(event->at);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  SIMT_CALL();
  if (begin->at == nullptr || end->at == nullptr) return cudaErrorInvalidResourceHandle;
  if (!begin->at->done || !end->at->done) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(end->at->finished_at - begin->at->finished_at);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  SIMT_CALL();
  if (event->at == nullptr) return cudaSuccess;                   // never recorded
  if (event->capture != nullptr && stream->capture == nullptr) {  // the stream joins the capture
    stream->capture = event->capture;
    stream->tail_before = std::exchange(stream->tail, nullptr);
    stream->capture->streams.push_back(stream);
  }
  if (stream->capture != event->capture) {
    return stream->capture != nullptr ? Device().Refuse(stream) : cudaErrorStreamCaptureIsolation;
  }
  stream->waits.push_back(event->at);
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, WorkQueue::ModeOfThisThread());
  return cudaSuccess;
}
