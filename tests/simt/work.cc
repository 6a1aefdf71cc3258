#include "tests/simt/work.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "tests/simt/control.h"
#include "tests/simt/device_memory.h"

namespace kinora::simt {
namespace {

struct FailingCall {
  cudaError_t error;
  int after;
};
std::map<std::string, FailingCall>& FailingCalls() {
  static auto* const calls = new std::map<std::string, FailingCall>;
  return *calls;
}

thread_local std::vector<SimtCapture*> captures_of_this_thread;

std::vector<char*> not_waited_for;

cudaError_t State() { return Lost() ? cudaErrorLaunchFailure : cudaSuccess; }

double Milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

const std::vector<char*>& NotWaitedFor() { return not_waited_for; }

WorkQueue& Device() {
  static auto* const queue = new WorkQueue;
  return *queue;
}

void FailCall(const std::string& name, cudaError_t error, int after) {
  const DeviceLock lock;
  const Unwatched unwatched;
  FailingCalls()[name] = {error, after};
}

cudaError_t BeginCall(const char* function) {
  if (Lost()) return cudaErrorLaunchFailure;
  const auto failing = FailingCalls().find(function);
  if (failing == FailingCalls().end() || failing->second.after-- > 0) return cudaSuccess;
  const cudaError_t error = failing->second.error;
  FailingCalls().erase(failing);
  if (error == cudaErrorLaunchFailure) LoseDevice(std::string(function) + " was told to fail");
  return error;
}

void WorkQueue::RunNode(CUgraphNode_st& node, char* token, const std::vector<char*>& after) {
  const ForeignThread own;  // ordered by the tokens alone
  not_waited_for.clear();
  for (char* before : after) {  // the first is the host's token or the start of the graph
    if (node.early && before != after.front()) {
      not_waited_for.push_back(before);
    } else {
      Acquire(before);
    }
  }
  if (!Lost() && node.work) node.work();
  {
    const Unwatched unwatched;
    node.finished_at = Milliseconds();
  }
  Release(token);
}

// Runs the nodes in any order that their edges allow.
void WorkQueue::RunGraph(const std::vector<SimtNode>& nodes) {
  const Unwatched unwatched;
  std::map<const CUgraphNode_st*, char*> done;
  std::vector<char> tokens(nodes.size() + 1);
  Release(&tokens[nodes.size()]);  // the graph's start
  std::vector<SimtNode> rest = nodes;
  while (!rest.empty()) {
    for (uint64_t tries = Random() % rest.size();; ++tries) {
      const size_t i = tries % rest.size();
      std::vector<char*> after = {&tokens[nodes.size()]};
      for (const SimtNode& before : rest[i]->after) {
        if (const auto found = done.find(before.get()); found != done.end()) after.push_back(found->second);
      }
      if (after.size() != rest[i]->after.size() + 1) continue;
      char* const token = &tokens[done.size()];
      RunNode(*rest[i], token, after);
      done[rest[i].get()] = token;
      rest.erase(rest.begin() + static_cast<int64_t>(i));
      break;
    }
  }
  for (const auto& [node, token] : done) Acquire(token);
}

void WorkQueue::Drop() {
  for (const SimtNode& node : pending_) {
    node->done = true;
    node->after.clear();
    node->work = nullptr;
  }
  pending_.clear();
}

void Restore() {
  const DeviceLock lock;
  const Unwatched unwatched;
  Device().Drop();
  ForgetFailure();
}

bool WorkQueue::MayRun(const CUgraphNode_st& node) {
  return std::all_of(node.after.begin(), node.after.end(), [](const SimtNode& before) { return before->done; });
}

void WorkQueue::RunOne() {
  for (uint64_t tries = Random() % pending_.size();; ++tries) {
    const size_t i = tries % pending_.size();
    const SimtNode node = pending_[i];
    std::vector<char*> after = {&node->token};  // what the host did before it enqueued this node
    for (const SimtNode& before : node->after) after.push_back(&before->token);
    if (!MayRun(*node)) continue;
    pending_.erase(pending_.begin() + static_cast<int64_t>(i));
    DeviceMemory::Get().Open();
    RunNode(*node, &node->token, after);
    DeviceMemory::Get().Close();
    node->done = true;
    node->after.clear();
    node->work = nullptr;
    return;
  }
}

void WorkQueue::RunSome() {
  const auto waits = [](const SimtNode& node) { return node->waits && MayRun(*node); };
  for (uint64_t n = Random() % 3; n-- > 0 && !pending_.empty();) {
    if (std::any_of(pending_.begin(), pending_.end(), waits)) return;
    RunOne();
  }
}

void WorkQueue::RunAtLeastOne() {
  if (!pending_.empty()) RunOne();
  RunSome();
}

cudaError_t WorkQueue::Finish(const SimtNode& node) {
  ++Counters().synchronizations;
  if (node != nullptr) {
    while (!node->done) RunOne();
    Acquire(&node->token);
  }
  return State();
}

cudaError_t WorkQueue::FinishAll() {
  ++Counters().synchronizations;
  while (!pending_.empty()) {
    const SimtNode node = pending_.front();
    while (!node->done) RunOne();
    Acquire(&node->token);
  }
  return State();
}

cudaError_t WorkQueue::Enqueue(cudaStream_t stream, CUgraphNode_st work, SimtNode* enqueued) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;  // the engine has no default stream
  auto node = std::make_shared<CUgraphNode_st>(std::move(work));
  node->stream = stream;
  if (stream->tail != nullptr) node->after.push_back(stream->tail);
  for (const SimtNode& wait : stream->waits) node->after.push_back(wait);
  stream->waits.clear();
  stream->tail = node;
  if (enqueued != nullptr) *enqueued = node;
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(node);
    return cudaSuccess;
  }
  Release(&node->token);
  pending_.push_back(node);
  RunSome();
  return State();
}

void WorkQueue::BeginCapture(SimtCapture* capture) { captures_of_this_thread.push_back(capture); }

void WorkQueue::EndCapture(SimtCapture* capture) { std::erase(captures_of_this_thread, capture); }

cudaStreamCaptureMode& WorkQueue::ModeOfThisThread() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  return mode;
}

cudaError_t WorkQueue::RefuseInCapture() {
  if (ModeOfThisThread() == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (SimtCapture* capture : captures_of_this_thread) capture->broken = true;
  return captures_of_this_thread.empty() ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

cudaError_t WorkQueue::Refuse(cudaStream_t stream) {
  stream->capture->broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace kinora::simt
