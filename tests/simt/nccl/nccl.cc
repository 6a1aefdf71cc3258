// Test only: a libnccl.so.2 with the C interface of NCCL 2.20, for the simulated device. Ranks are processes on one
// machine with one simulated device each (segment.h). It rejects, with a reason, what the real library's documentation
// forbids. Ranks that make different calls lose their devices instead of hanging. As in the real library, an abort
// affects only this process and waits until the graphs that hold the communicator's calls are destroyed.
#include <algorithm>
#include <utility>

#include "tests/simt/nccl/library.h"

using namespace kinora::nccl;  // NOLINT(google-build-using-namespace)
using namespace kinora::simt;  // NOLINT(google-build-using-namespace)

namespace {

using Communicator = std::shared_ptr<NcclCommunicator>;
using State = NcclCommunicator::State;

// Segments that this process created and whose rank has not joined yet.
std::vector<std::pair<std::string, std::shared_ptr<Segment>>>& Made() {
  static auto* const made = new std::vector<std::pair<std::string, std::shared_ptr<Segment>>>;
  return *made;
}

std::string Text(const UniqueId& id) { return std::string(id.internal, sizeof id.internal); }

std::shared_ptr<Segment> SegmentOf(const UniqueId& id, std::string* why) {
  auto& made = Made();
  const auto own = std::find_if(made.begin(), made.end(), [&](const auto& each) { return each.first == Text(id); });
  if (own == made.end()) return Segment::Open(id, why);
  std::shared_ptr<Segment> segment = own->second;
  made.erase(own);
  return segment;
}

Result CheckConfig(const Config* config) {
  if (config == nullptr) return Result::kSuccess;
  const Config ours;
  if (config->magic != ours.magic || config->size != ours.size) {
    return NcclRefuse(Result::kInvalidArgument, "a config that NCCL_CONFIG_INITIALIZER did not make");
  }
  if (config->blocking != kUnset && config->blocking != 0 && config->blocking != 1) {
    return NcclRefuse(Result::kInvalidArgument, "config: blocking is 0 or 1");
  }
  return Result::kSuccess;
}

// Done once all ranks have arrived. The key contains their number, so ranks that disagree about it never meet.
Result Joined(NcclCommunicator& c) {
  std::vector<Segment::Brought> brought;
  if (!c.segment->Met(c.id, c.rank, c.size(), &brought)) return Result::kInProgress;
  c.segment->Close();
  return Result::kSuccess;
}

// Creates the part of `parent` with this rank's colour, once all ranks of the parent have given theirs.
Result Parted(NcclCommunicator& parent, int number, int color, Comm* part) {
  std::vector<Segment::Brought> brought;
  const uint64_t key = NcclKey(parent.id, "split", number);
  if (!parent.segment->Met(key, parent.rank, parent.size(), &brought)) return Result::kInProgress;
  if (color < 0) return Result::kSuccess;
  std::vector<std::pair<int64_t, int>> ranks;  // (key, rank in the parent)
  for (int r = 0; r < parent.size(); ++r) {
    if (brought[r].first == color) ranks.emplace_back(brought[r].second, r);
  }
  std::sort(ranks.begin(), ranks.end());
  auto child = std::make_shared<NcclCommunicator>();
  child->segment = parent.segment;
  child->name = parent.name + "/" + std::to_string(number) + ":" + std::to_string(color);
  child->id = NcclKey(key, "color", color);
  child->blocking = parent.blocking;
  for (const auto& [order, rank] : ranks) {
    if (rank == parent.rank) child->rank = child->size();
    child->members.push_back(parent.members[rank]);
  }
  *part = NcclHandle(child);
  return Result::kSuccess;
}

// As in NCCL, destroying waits for the graphs that hold calls of the communicator.
void WaitForGraphs(NcclLock& lock, const NcclCommunicator& c) {
  while (c.captures > 0) {
    lock.unlock();
    c.segment->Sleep(c.me(), c.segment->Bell(c.me()));
    lock.lock();
  }
}

void Forget(Comm comm) { NcclLibrary::Get().communicators.erase(comm); }

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  *version = NcclLibrary::Get().version;
  return Result::kSuccess;
}

const char* ncclGetErrorString(Result result) {
  static constexpr const char* kNames[] = {"no error",
                                           "unhandled cuda error",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process exited or there was a network error",
                                           "NCCL operation in progress"};
  const auto number = static_cast<uint32_t>(result);
  return number < 8 ? kNames[number] : "unknown result code";
}

const char* ncclGetLastError(Comm) {
  const NcclLock lock(NcclLibrary::Get().mutex);
  thread_local std::string text;
  text = NcclLibrary::Get().last_error;
  return text.c_str();
}

Result ncclGetUniqueId(UniqueId* id) {
  const NcclLock lock(NcclLibrary::Get().mutex);
  if (const Result injected = NcclInjected("ncclGetUniqueId"); injected != Result::kSuccess) return injected;
  std::shared_ptr<Segment> segment = Segment::Make(id);
  if (segment == nullptr) return NcclRefuse(Result::kSystemError, "no shared memory");
  Made().emplace_back(Text(*id), std::move(segment));
  return Result::kSuccess;
}

Result ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  NcclLock lock(NcclLibrary::Get().mutex);
  *comm = nullptr;
  if (const Result injected = NcclInjected("ncclCommInitRankConfig"); injected != Result::kSuccess) return injected;
  if (const Result wrong = CheckConfig(config); wrong != Result::kSuccess) return wrong;
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) {
    return NcclRefuse(Result::kInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  }
  std::string why;
  auto c = std::make_shared<NcclCommunicator>();
  c->segment = SegmentOf(id, &why);
  if (c->segment == nullptr) return NcclRefuse(Result::kRemoteError, why);
  c->name = "world";
  c->id = NcclKey(0, "world", ranks);
  c->rank = rank;
  c->blocking = config == nullptr || config->blocking != 0;
  for (int r = 0; r < ranks; ++r) c->members.push_back(r);
  if (!c->segment->Arrive(c->id, rank, 0, 0)) {
    return NcclRefuse(Result::kInvalidUsage, "rank " + std::to_string(rank) + " came twice");
  }
  *comm = NcclHandle(c);
  return NcclBegin(lock, *c, State::kComing, Joined);
}

Result ncclCommSplit(Comm comm, int color, int key, Comm* part, Config* config) {
  NcclLock lock(NcclLibrary::Get().mutex);
  *part = nullptr;
  Communicator parent;
  if (const Result refused = NcclFind("ncclCommSplit", comm, &parent); refused != Result::kSuccess) return refused;
  if (const Result wrong = CheckConfig(config); wrong != Result::kSuccess) return wrong;
  const int number = parent->splits++;
  parent->segment->Arrive(NcclKey(parent->id, "split", number), parent->rank, color, key);
  return NcclBegin(lock, *parent, State::kComing,
                   [=](NcclCommunicator& self) { return Parted(self, number, color, part); });
}

Result ncclCommFinalize(Comm comm) {
  NcclLock lock(NcclLibrary::Get().mutex);
  Communicator c;
  if (const Result refused = NcclFind("ncclCommFinalize", comm, &c); refused != Result::kSuccess) return refused;
  c->segment->Arrive(NcclKey(c->id, "end", 0), c->rank, 0, 0);
  return NcclBegin(lock, *c, State::kFinalizing, [](NcclCommunicator& self) {
    std::vector<Segment::Brought> brought;
    return self.segment->Met(NcclKey(self.id, "end", 0), self.rank, self.size(), &brought) ? Result::kSuccess
                                                                                           : Result::kInProgress;
  });
}

Result ncclCommDestroy(Comm comm) {
  NcclLock lock(NcclLibrary::Get().mutex);
  const auto found = NcclLibrary::Get().communicators.find(comm);
  if (found == NcclLibrary::Get().communicators.end() || found->second->state != State::kFinalized) {
    return NcclRefuse(Result::kInvalidUsage, "ncclCommDestroy of a communicator that was not finalized, or is gone");
  }
  const Communicator c = found->second;
  WaitForGraphs(lock, *c);
  Forget(comm);
  return Result::kSuccess;
}

Result ncclCommAbort(Comm comm) {
  NcclLock lock(NcclLibrary::Get().mutex);
  const auto found = NcclLibrary::Get().communicators.find(comm);
  if (found == NcclLibrary::Get().communicators.end() || found->second->aborted) {
    return NcclRefuse(Result::kInvalidArgument, "ncclCommAbort of a communicator that is gone");
  }
  const Communicator c = found->second;
  c->aborted = true;
  c->segment->Wake();
  WaitForGraphs(lock, *c);
  Forget(comm);
  return Result::kSuccess;
}

Result ncclCommGetAsyncError(Comm comm, Result* error) {
  const NcclLock lock(NcclLibrary::Get().mutex);
  const auto found = NcclLibrary::Get().communicators.find(comm);
  if (found == NcclLibrary::Get().communicators.end() || found->second->aborted) {
    return NcclRefuse(Result::kInvalidArgument, "ncclCommGetAsyncError of a communicator that is gone");
  }
  *error = NcclPoll(*found->second);
  return Result::kSuccess;
}

Result ncclAllReduce(const void* send, void* receive, size_t count, DataType type, Reduction op, Comm comm,
                     cudaStream_t stream) {
  if (op != Reduction::kSum) return Result::kInvalidArgument;
  return NcclEnqueue(comm, {.kind = NcclCall::Kind::kAllReduce,
                            .send = send,
                            .receive = receive,
                            .count = static_cast<int64_t>(count),
                            .type = type,
                            .stream = stream});
}

Result ncclAllGather(const void* send, void* receive, size_t count, DataType type, Comm comm, cudaStream_t stream) {
  return NcclEnqueue(comm, {.kind = NcclCall::Kind::kAllGather,
                            .send = send,
                            .receive = receive,
                            .count = static_cast<int64_t>(count),
                            .type = type,
                            .stream = stream});
}

Result ncclBroadcast(const void* send, void* receive, size_t count, DataType type, int root, Comm comm,
                     cudaStream_t stream) {
  return NcclEnqueue(comm, {.kind = NcclCall::Kind::kBroadcast,
                            .send = send,
                            .receive = receive,
                            .count = static_cast<int64_t>(count),
                            .type = type,
                            .root = root,
                            .stream = stream});
}

Result ncclSend(const void* send, size_t count, DataType type, int peer, Comm comm, cudaStream_t stream) {
  return NcclEnqueue(comm, {.kind = NcclCall::Kind::kSend,
                            .send = send,
                            .count = static_cast<int64_t>(count),
                            .type = type,
                            .root = peer,
                            .stream = stream});
}

Result ncclRecv(void* receive, size_t count, DataType type, int peer, Comm comm, cudaStream_t stream) {
  return NcclEnqueue(comm, {.kind = NcclCall::Kind::kReceive,
                            .receive = receive,
                            .count = static_cast<int64_t>(count),
                            .type = type,
                            .root = peer,
                            .stream = stream});
}
}
