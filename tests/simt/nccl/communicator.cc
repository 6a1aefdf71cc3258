#include "tests/simt/nccl/communicator.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "engine/tensor/dtype.h"
#include "tests/simt/device_state.h"
#include "tests/simt/library.h"

namespace kinora::simt {
namespace {

std::mutex break_mutex;
int break_after = -1;
nccl::Result break_error = nccl::Result::kSuccess;

// Returns the error that BreakLater set for this kernel, if any.
nccl::Result BreaksNow() {
  const std::lock_guard lock(break_mutex);
  return break_after >= 0 && break_after-- == 0 ? break_error : nccl::Result::kSuccess;
}

// Adds in rank order, in float32, and rounds once.
template <typename T>
void Sum(const std::vector<const void*>& parts, int64_t count, void* out) {
  for (int64_t i = 0; i < count; ++i) {
    float sum = static_cast<float>(static_cast<const T*>(parts[0])[i]);
    for (size_t p = 1; p < parts.size(); ++p) sum += static_cast<float>(static_cast<const T*>(parts[p])[i]);
    static_cast<T*>(out)[i] = static_cast<T>(sum);
  }
}

}  // namespace

int64_t SizeOf(nccl::DataType type) {
  switch (type) {
    case nccl::DataType::kInt8:
    case nccl::DataType::kUint8:
      return 1;
    case nccl::DataType::kBfloat16:
      return 2;
    case nccl::DataType::kInt32:
    case nccl::DataType::kFloat32:
      return 4;
    case nccl::DataType::kInt64:
      return 8;
  }
  return 0;
}

const char* NcclCall::name() const {
  static constexpr const char* kNames[] = {"ncclAllReduce", "ncclAllGather", "ncclAlltoAll",
                                           "ncclBroadcast", "ncclSend",      "ncclRecv"};
  return kNames[static_cast<int>(kind)];
}

std::atomic<int>& NcclKernelsThatWait() {
  static std::atomic<int> waiting = 0;
  return waiting;
}

void BreakLater(nccl::Result error, int after) {
  const std::lock_guard lock(break_mutex);
  break_error = error;
  break_after = after;
}

// Precedes a call's bytes from each sending rank, so that the receiver can check that both ranks make the same call.
struct NcclCommunicator::Header {
  uint64_t communicator = 0, call = 0;
  NcclCall::Kind kind = NcclCall::Kind::kAllReduce;
  nccl::DataType type = nccl::DataType::kFloat32;
  int64_t count = 0;
  int32_t root = 0;
  char of[36] = {};

  bool operator==(const Header& o) const {
    return communicator == o.communicator && call == o.call && kind == o.kind && type == o.type && count == o.count &&
           root == o.root;
  }
  std::string ToString() const {
    return std::string(NcclCall{.kind = kind}.name()) + " of " + std::to_string(count) + " of type " +
           std::to_string(static_cast<int>(type)) + (root >= 0 ? " with root " + std::to_string(root) : "") +
           ", call " + std::to_string(call) + " of communicator " + of;
  }
};

NcclCommunicator::Header NcclCommunicator::HeaderOf(const NcclCall& call) const {
  Header h{.communicator = id,
           .call = calls,
           .kind = call.kind,
           .type = call.type,
           .count = call.count,
           .root = call.kind == NcclCall::Kind::kBroadcast ? call.root : -1};
  if (h.kind == NcclCall::Kind::kReceive) h.kind = NcclCall::Kind::kSend;  // both halves of a pair have equal headers
  std::strncpy(h.of, name.c_str(), sizeof h.of - 1);
  return h;
}

// A header and data in transit to or from a peer.
struct NcclCommunicator::Transfer {
  int peer = 0;  // rank in the segment
  Header header{};
  char* data = nullptr;
  int64_t bytes = 0;
  Header came{};  // received from the peer
  int64_t done = 0;

  int64_t total() const { return static_cast<int64_t>(sizeof(Header)) + bytes; }
};

struct NcclCommunicator::Exchange {
  std::vector<Transfer> out, in;
};

namespace {

// The remaining bytes of a transfer's header, or of its data.
template <typename Transfer, typename Header>
std::pair<char*, size_t> Rest(Transfer& t, Header& header) {
  constexpr int64_t kHeader = sizeof(Header);
  if (t.done < kHeader) return {reinterpret_cast<char*>(&header) + t.done, kHeader - t.done};
  return {t.data + (t.done - kHeader), static_cast<size_t>(t.total() - t.done)};
}

// The first unfinished transfer of each peer; later ones must wait.
template <typename Transfer>
std::vector<Transfer*> Heads(std::vector<Transfer>& all) {
  std::vector<Transfer*> heads;
  uint32_t seen = 0;
  for (Transfer& t : all) {
    if (t.done == t.total() || (seen >> t.peer & 1) != 0) continue;
    seen |= 1u << t.peer;
    heads.push_back(&t);
  }
  return heads;
}

}  // namespace

void NcclCommunicator::Hang() {
  ++NcclKernelsThatWait();
  while (!aborted) segment->Sleep(me(), segment->Bell(me()));
  --NcclKernelsThatWait();
}

// Transfers as many bytes as possible. Returns whether any were transferred.
bool NcclCommunicator::MoveSome(Exchange& exchange, Waiting* waiting) {
  bool moved = false;
  *waiting = {};
  for (Transfer* t : Heads(exchange.out)) {
    const auto [data, bytes] = Rest(*t, t->header);
    const size_t some = segment->Write(me(), t->peer, data, bytes);
    t->done += static_cast<int64_t>(some);
    moved |= some > 0;
    if (t->done < t->total()) waiting->to_be_read_by |= 1u << t->peer;
  }
  for (Transfer* t : Heads(exchange.in)) {
    const auto [data, bytes] = Rest(*t, t->came);
    const size_t some = segment->Read(t->peer, me(), data, bytes);
    t->done += static_cast<int64_t>(some);
    moved |= some > 0;
    if (some > 0 && t->done == static_cast<int64_t>(sizeof(Header)) && !(t->came == t->header)) {
      segment->Break("the ranks of a communicator called different things: rank " + std::to_string(me()) + " " +
                     t->header.ToString() + "; rank " + std::to_string(t->peer) + " " + t->came.ToString());
    }
    if (t->done < t->total()) waiting->to_hear_from |= 1u << t->peer;
  }
  return moved;
}

// Returns false if it was aborted or the device is lost.
bool NcclCommunicator::Move(Exchange& exchange) {
  bool waits = false;
  while (true) {
    const uint32_t bell = segment->Bell(me());
    segment->Waits(me(), 0, 0);
    segment->Moves(me());
    Waiting waiting{};
    const bool moved = MoveSome(exchange, &waiting);
    const bool done = Heads(exchange.out).empty() && Heads(exchange.in).empty();
    if (moved) segment->Wake();
    if (const std::string why = segment->Broken(); !why.empty()) LoseDevice(why);
    if (done || aborted || Lost()) {
      if (waits) --NcclKernelsThatWait();
      return done && !Lost();
    }
    if (moved) continue;
    segment->Waits(me(), waiting.to_hear_from, waiting.to_be_read_by);
    if (const std::string circle = segment->Circle(me()); !circle.empty()) {
      segment->Break("ranks wait for each other: " + circle + ": they call their communicators in different orders");
      continue;
    }
    if (!std::exchange(waits, true)) ++NcclKernelsThatWait();
    segment->Sleep(me(), bell);
  }
}

bool NcclCommunicator::RunCollective(const NcclCall& call) {
  using Kind = NcclCall::Kind;
  const Header header = HeaderOf(call);
  const int64_t bytes = call.bytes();
  auto* const send = static_cast<char*>(const_cast<void*>(call.send));
  auto* const receive = static_cast<char*>(call.receive);
  std::vector<std::vector<char>> parts(size());  // received terms of a sum
  Exchange exchange;
  for (int r = 0; r < size(); ++r) {
    if (r == rank) continue;
    Transfer out{.peer = members[r], .header = header, .data = send, .bytes = bytes};
    Transfer in = {.peer = members[r], .header = header, .data = receive + r * bytes, .bytes = bytes};
    if (call.kind == Kind::kAllToAll) out.data = send + r * bytes;
    if (call.kind == Kind::kAllReduce) {
      parts[r].resize(bytes);
      in.data = parts[r].data();
    }
    if (call.kind == Kind::kBroadcast) in.data = receive;
    if (call.kind == Kind::kBroadcast && call.root != rank) out.bytes = 0;
    if (call.kind == Kind::kBroadcast && call.root != r) in.bytes = 0;
    exchange.out.push_back(out);
    exchange.in.push_back(in);
  }
  if (!Move(exchange)) return false;
  if (call.kind == Kind::kAllReduce) {
    std::vector<const void*> from;
    for (int r = 0; r < size(); ++r) from.push_back(r == rank ? call.send : parts[r].data());
    const auto sum = call.type == nccl::DataType::kFloat32 ? &Sum<float> : &Sum<bf16>;
    sum(from, call.count, receive);
  } else if (call.kind == Kind::kAllToAll) {
    std::memcpy(receive + rank * bytes, send + rank * bytes, bytes);
  } else if (call.kind == Kind::kAllGather) {
    std::memmove(receive + rank * bytes, send, bytes);  // may be in place
  } else if (call.root == rank) {
    std::memmove(receive, send, bytes);
  }
  return true;
}

// Runs all sends and receives concurrently; those between the same two ranks run in order.
bool NcclCommunicator::RunSendsAndReceives(const std::vector<NcclCall>& calls) {
  Exchange exchange;
  std::deque<const NcclCall*> to_myself;
  for (const NcclCall& call : calls) {
    const bool sends = call.kind == NcclCall::Kind::kSend;
    if (call.root == rank) {
      if (sends) to_myself.push_back(&call);
      continue;
    }
    Header header = HeaderOf(call);
    header.call = 0;  // peers may have made other calls
    auto* const data = static_cast<char*>(sends ? const_cast<void*>(call.send) : call.receive);
    (sends ? exchange.out : exchange.in)
        .push_back({.peer = members[call.root], .header = header, .data = data, .bytes = call.bytes()});
  }
  for (const NcclCall& call : calls) {
    if (call.kind != NcclCall::Kind::kReceive || call.root != rank) continue;
    if (to_myself.empty() || to_myself.front()->bytes() != call.bytes()) {
      segment->Break("rank " + std::to_string(rank) + " of " + name + " receives from itself what it does not send");
      break;
    }
    std::memmove(call.receive, to_myself.front()->send, call.bytes());
    to_myself.pop_front();
  }
  return Move(exchange);
}

void NcclCommunicator::Run(const std::vector<NcclCall>& group) {
  if (const nccl::Result broken = BreaksNow(); broken != nccl::Result::kSuccess) {
    error = static_cast<uint32_t>(broken);
    Hang();
  }
  if (const std::string why = segment->Broken(); !why.empty()) LoseDevice(why);
  if (aborted) return;  // as NCCL's kernels do, before anything else
  const bool pairs = std::all_of(group.begin(), group.end(), [](const NcclCall& call) {
    return call.kind == NcclCall::Kind::kSend || call.kind == NcclCall::Kind::kReceive;
  });
  if (pairs) {
    RunSendsAndReceives(group);
  } else {
    for (const NcclCall& call : group) {
      ++calls;
      if (!RunCollective(call)) break;
    }
  }
  segment->Waits(me(), 0, 0);
}

cudaError_t NcclCommunicator::Enqueue(std::vector<NcclCall> group) {
  using Kind = NcclCall::Kind;
  std::vector<Access> accesses;
  for (const NcclCall& call : group) {
    const int64_t all = call.bytes() * size();
    const bool sends = call.kind != Kind::kReceive && !(call.kind == Kind::kBroadcast && call.root != rank);
    const bool receives = call.kind != Kind::kSend;
    if (sends) accesses.push_back({.begin = call.send, .bytes = call.kind == Kind::kAllToAll ? all : call.bytes()});
    if (receives) {
      const bool wide = call.kind == Kind::kAllToAll || call.kind == Kind::kAllGather;
      accesses.push_back({.begin = call.receive, .bytes = wide ? all : call.bytes(), .written = true});
    }
  }
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(group[0].stream, &capturing);
  std::shared_ptr<void> captured;
  if (capturing != cudaStreamCaptureStatusNone) {
    captured = std::shared_ptr<void>(nullptr, [self = shared_from_this()](void*) { --self->captures; });
    ++captures;
  }
  return EnqueueWaiting(group[0].stream, group[0].name(), std::move(accesses),
                        [self = shared_from_this(), captured, group] { self->Run(group); });
}

}  // namespace kinora::simt
