#include "tests/simt/nccl/library.h"

#include <utility>

#include "tests/simt/nccl/control.h"

namespace kinora::simt {
namespace {

using nccl::Result;
using State = NcclCommunicator::State;

// The current group of this thread.
struct Group {
  int depth = 0;
  std::vector<std::pair<nccl::Comm, std::vector<NcclCall>>> calls;  // by communicator, in order of appearance
};
Group& ThisGroup() {
  thread_local Group group;
  return group;
}

Result CheckCall(const NcclCommunicator& c, const NcclCall& call) {
  using Kind = NcclCall::Kind;
  const auto refuse = [&call](const std::string& why) {
    return NcclRefuse(Result::kInvalidArgument, std::string(call.name()) + ": " + why);
  };
  const bool sums = call.kind == Kind::kAllReduce;
  if (SizeOf(call.type) == 0) return refuse("a type that is not simulated");
  if (sums && call.type != nccl::DataType::kFloat32 && call.type != nccl::DataType::kBfloat16) {
    return refuse("sums are simulated of float32 and bfloat16");
  }
  if (call.root < 0 || call.root >= c.size()) return refuse("no rank " + std::to_string(call.root));
  if (call.stream == nullptr) return refuse("the default stream");
  const bool sends = call.kind != Kind::kReceive, receives = call.kind != Kind::kSend;
  if (call.count > 0 && ((sends && call.send == nullptr) || (receives && call.receive == nullptr))) {
    return refuse("a null buffer");
  }
  const int64_t bytes = call.bytes();
  const auto* const send = static_cast<const char*>(call.send);
  const auto* const receive = static_cast<const char*>(call.receive);
  if (call.kind == Kind::kAllToAll && send < receive + bytes * c.size() && receive < send + bytes * c.size()) {
    return refuse("its buffers overlap");
  }
  if (call.kind == Kind::kAllGather && send != receive + bytes * c.rank && send < receive + bytes * c.size() &&
      receive < send + bytes) {
    return refuse("in place is at the rank's own part of the result");
  }
  return Result::kSuccess;
}

Result FromCuda(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return Result::kSuccess;
  return NcclRefuse(Result::kUnhandledCudaError, std::string(call) + ": " + cudaGetErrorString(error));
}

// A non-blocking communicator connects its ranks at its first call. Until then the call is in progress and nothing is
// on the stream.
Result Launch(NcclLock& lock, NcclCommunicator& c, std::vector<NcclCall> calls) {
  for (const NcclCall& call : calls) {
    if (call.stream != calls[0].stream) return NcclRefuse(Result::kInvalidUsage, "a group over several streams");
  }
  const char* const name = calls[0].name();
  if (c.used || c.blocking) return FromCuda(name, c.Enqueue(std::move(calls)));
  c.used = true;
  return NcclBegin(lock, c, State::kComing,
                   [name, calls = std::move(calls), polls = 2](NcclCommunicator& self) mutable {
                     return polls-- > 0 ? Result::kInProgress : FromCuda(name, self.Enqueue(std::move(calls)));
                   });
}

}  // namespace

NcclLibrary& NcclLibrary::Get() {
  static auto* const library = new NcclLibrary;
  return *library;
}

Result NcclRefuse(Result result, const std::string& why) {
  NcclLibrary::Get().last_error = why;
  return result;
}

Result NcclInjected(const char* function) {
  auto& failing = NcclLibrary::Get().failing;
  const auto found = failing.find(function);
  if (found == failing.end() || found->second.after-- > 0) return Result::kSuccess;
  const Result result = found->second.result;
  failing.erase(found);
  return NcclRefuse(result, std::string(function) + " was told to fail");
}

Result NcclFind(const char* function, nccl::Comm comm, std::shared_ptr<NcclCommunicator>* found) {
  NcclLibrary& library = NcclLibrary::Get();
  if (const Result injected = NcclInjected(function); injected != Result::kSuccess) return injected;
  const auto it = library.communicators.find(comm);
  if (it == library.communicators.end() || it->second->aborted) {
    return NcclRefuse(Result::kInvalidArgument,
                      std::string(function) + " of a communicator that was aborted or destroyed, or never was");
  }
  *found = it->second;
  if (const auto error = static_cast<Result>((*found)->error.load()); error != Result::kSuccess) return error;
  if ((*found)->state != State::kReady) {
    return NcclRefuse(Result::kInvalidArgument,
                      std::string(function) + " of a communicator that is in progress or at its end");
  }
  return Result::kSuccess;
}

nccl::Comm NcclHandle(const std::shared_ptr<NcclCommunicator>& communicator) {
  const auto handle = reinterpret_cast<nccl::Comm>(communicator.get());
  NcclLibrary::Get().communicators[handle] = communicator;
  return handle;
}

uint64_t NcclKey(uint64_t id, const char* what, int64_t number) {
  const std::string text = std::to_string(id) + what + std::to_string(number);
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash | 1;
}

Result NcclPoll(NcclCommunicator& c) {
  if (c.coming == nullptr) return static_cast<Result>(c.error.load());
  auto work = std::exchange(c.coming, nullptr);
  const std::string broken = c.segment->Broken();
  const Result result = broken.empty() ? work(c) : NcclRefuse(Result::kInvalidUsage, broken);
  if (result == Result::kInProgress) {
    c.coming = std::move(work);
  } else if (result != Result::kSuccess) {
    c.error = static_cast<uint32_t>(result);
  } else {
    c.state = c.state == State::kFinalizing ? State::kFinalized : State::kReady;
  }
  return result;
}

Result NcclBegin(NcclLock& lock, NcclCommunicator& c, State state, std::function<Result(NcclCommunicator&)> work) {
  c.state = state;
  c.coming = std::move(work);
  if (!c.blocking) return Result::kInProgress;
  while (true) {
    const uint32_t bell = c.segment->Bell(c.me());
    const Result result = NcclPoll(c);
    if (result != Result::kInProgress || c.aborted) return result;
    lock.unlock();
    c.segment->Sleep(c.me(), bell);
    lock.lock();
  }
}

Result NcclEnqueue(nccl::Comm comm, const NcclCall& call) {
  NcclLock lock(NcclLibrary::Get().mutex);
  std::shared_ptr<NcclCommunicator> c;
  if (const Result refused = NcclFind(call.name(), comm, &c); refused != Result::kSuccess) return refused;
  if (const Result wrong = CheckCall(*c, call); wrong != Result::kSuccess) return wrong;
  const bool pair = call.kind == NcclCall::Kind::kSend || call.kind == NcclCall::Kind::kReceive;
  if (call.count == 0 && !pair) return Result::kSuccess;
  Group& group = ThisGroup();
  if (group.depth == 0) return Launch(lock, *c, {call});
  for (auto& [each, calls] : group.calls) {
    if (each != comm) continue;
    calls.push_back(call);
    return Result::kSuccess;
  }
  group.calls.push_back({comm, {call}});
  return Result::kSuccess;
}

}  // namespace kinora::simt

using namespace kinora::simt;  // NOLINT(google-build-using-namespace)
using kinora::nccl::Result;

extern "C" {

Result ncclGroupStart() {
  ++ThisGroup().depth;
  return Result::kSuccess;
}

Result ncclGroupEnd() {
  Group& group = ThisGroup();
  NcclLock lock(NcclLibrary::Get().mutex);
  if (group.depth == 0) return NcclRefuse(Result::kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return Result::kSuccess;
  const auto calls = std::exchange(group.calls, {});
  if (const Result injected = NcclInjected("ncclGroupEnd"); injected != Result::kSuccess) return injected;
  Result answer = Result::kSuccess;
  for (const auto& [comm, of] : calls) {
    std::shared_ptr<NcclCommunicator> c;
    Result result = NcclFind("ncclGroupEnd", comm, &c);
    if (result == Result::kSuccess) result = Launch(lock, *c, of);
    if (answer == Result::kSuccess || answer == Result::kInProgress)
      answer = result == Result::kSuccess ? answer : result;
  }
  return answer;
}

void kinora_nccl_fail(const char* name, int result, int after) {
  const NcclLock lock(NcclLibrary::Get().mutex);
  NcclLibrary::Get().failing[name] = {static_cast<Result>(result), after};
}

void kinora_nccl_break(int result, int after) { BreakLater(static_cast<Result>(result), after); }

void kinora_nccl_pretend(int version) { NcclLibrary::Get().version = version; }

int kinora_nccl_alive() {
  const NcclLock lock(NcclLibrary::Get().mutex);
  return static_cast<int>(NcclLibrary::Get().communicators.size());
}

int kinora_nccl_waiting() { return NcclKernelsThatWait(); }
}
