#include "engine/processes/socket_communicator.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

constexpr int kMostRanks = 64;
constexpr int64_t kBlockBytes = 512 << 10;  // per rank, for sums

template <typename T>
void AddInRankOrder(absl::Span<const T* const> parts, int64_t elements, T* sum) {
  constexpr int64_t kAtOnce = 1024;
  float block[kAtOnce];
  for (int64_t at = 0; at < elements; at += kAtOnce) {
    const int64_t n = std::min(kAtOnce, elements - at);
    for (int64_t i = 0; i < n; ++i) block[i] = static_cast<float>(parts[0][at + i]);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      for (int64_t i = 0; i < n; ++i) block[i] += static_cast<float>(parts[rank][at + i]);
    }
    for (int64_t i = 0; i < n; ++i) sum[at + i] = static_cast<T>(block[i]);
  }
}

}  // namespace

SocketCommunicator::SocketCommunicator(int rank, std::vector<FileDescriptor> links)
    : rank_(rank), links_(std::move(links)), transfers_(links_.size()), staged_(links_.size() * kBlockBytes) {
  KINORA_CHECK(size() <= kMostRanks) << size() << " ranks";
}

void SocketCommunicator::Abort() {
  aborted_ = true;
  for (const FileDescriptor& link : links_) {
    if (link.ok()) shutdown(link.get(), SHUT_RDWR);  // also wakes this rank's own poll
  }
}

absl::Status SocketCommunicator::Lost(int peer, const char* how) const {
  if (aborted_) return absl::AbortedError("the group of ranks was aborted");
  return absl::AbortedError(absl::StrCat("rank ", peer, " of the group is lost: ", how));
}

absl::Status SocketCommunicator::CheckCall(int peer) const {
  const Call& mine = transfers_[peer].sent;
  const Call& theirs = transfers_[peer].received;
  const auto op = [](const Call& call) {
    return call.op < kCollectives ? std::string(CollectiveName(static_cast<Collective>(call.op))) : "an unknown one";
  };
  const bool sizes_agree =
      mine.elements == theirs.elements || static_cast<Collective>(mine.op) == Collective::kGatherTo;
  if (mine.number == theirs.number && mine.op == theirs.op && mine.dtype == theirs.dtype && sizes_agree &&
      mine.root == theirs.root && mine.part == theirs.part) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("the ranks of a group called different collectives: rank ", rank_, " ",
                                          op(mine), " of ", mine.elements, " as its number ", mine.number, ", rank ",
                                          peer, " ", op(theirs), " of ", theirs.elements, " as its ", theirs.number));
}

void SocketCommunicator::Give(int peer, const void* bytes, int64_t count) {
  transfers_[peer].out = static_cast<const char*>(bytes);
  transfers_[peer].out_bytes = count;
}

void SocketCommunicator::Take(int peer, void* bytes, int64_t count) {
  transfers_[peer].in = static_cast<char*>(bytes);
  transfers_[peer].in_bytes = count;
}

// Sends and receives as much as possible without waiting. Reads a payload only after a matching Call.
absl::Status SocketCommunicator::Progress(int peer, bool& moved) {
  constexpr int64_t kHead = sizeof(Call);
  Transfer& t = transfers_[peer];
  const int fd = links_[peer].get();
  const auto failed = [](ssize_t n) { return n < 0 && errno != EAGAIN && errno != EINTR; };
  while (t.out_done < kHead + t.out_bytes) {
    const int64_t head = std::max<int64_t>(0, kHead - t.out_done), from = std::max<int64_t>(0, t.out_done - kHead);
    iovec pieces[] = {{reinterpret_cast<char*>(&t.sent) + (kHead - head), static_cast<size_t>(head)},
                      {const_cast<char*>(t.out) + from, static_cast<size_t>(t.out_bytes - from)}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (failed(n)) return Lost(peer, std::strerror(errno));
    if (n <= 0) break;
    t.out_done += n;
    moved = true;
  }
  while (t.in_done < kHead + t.in_bytes) {
    const bool head = t.in_done < kHead;
    char* to = head ? reinterpret_cast<char*>(&t.received) + t.in_done : t.in + (t.in_done - kHead);
    const ssize_t n = recv(fd, to, head ? kHead - t.in_done : kHead + t.in_bytes - t.in_done, 0);
    if (n == 0) return Lost(peer, "it ended the connection");
    if (failed(n)) return Lost(peer, std::strerror(errno));
    if (n < 0) break;
    t.in_done += n;
    moved = true;
    if (head && t.in_done == kHead) {
      KINORA_RETURN_IF_ERROR(CheckCall(peer));
      if (--expected_ == 0) all_came_ = Now();
    }
  }
  return absl::OkStatus();
}

absl::Status SocketCommunicator::Exchange() {
  ++call_.number;
  for (Transfer& t : transfers_) {
    t.sent = call_;
    t.out_done = t.in_done = 0;
  }
  std::array<pollfd, kMostRanks> watched;
  constexpr int64_t kHead = sizeof(Call);
  while (true) {
    size_t waiting = 0;
    bool moved = false;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      KINORA_RETURN_IF_ERROR(Progress(peer, moved));
      const Transfer& t = transfers_[peer];
      const bool out = t.out_done < kHead + t.out_bytes, in = t.in_done < kHead + t.in_bytes;
      const int events = (out ? POLLOUT : 0) | (in ? POLLIN : 0);
      if (events != 0) watched[waiting++] = {links_[peer].get(), static_cast<short>(events), 0};
    }
    if (waiting == 0) return absl::OkStatus();
    if (!moved && poll(watched.data(), waiting, -1) < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("cannot wait for the ranks of a group: ", std::strerror(errno)));
    }
  }
}

template <typename Move>
void SocketCommunicator::Run(Collective op, const Tensor& given, int root, Stream& stream, Move move) {
  CpuStream* cpu = &OnCpu(stream);
  const Tensor input = cpu->Reach(given);
  cpu->Enqueue(
      [this, op, input, root, cpu, move] {
        const int64_t bytes = BytesSent(op, input.bytes(), size(), rank_ == root);
        Count(op, bytes);
        const absl::Time begin = all_came_ = Now();
        expected_ = size() - 1;
        call_.op = static_cast<uint8_t>(op);
        call_.dtype = static_cast<uint8_t>(input.dtype());
        call_.elements = input.elements();
        call_.root = static_cast<uint16_t>(root);
        call_.part = 0;
        for (Transfer& t : transfers_) t.out_bytes = t.in_bytes = 0;
        absl::Status status = move(input);
        if (status.ok()) {
          Measured(op, bytes, {begin, all_came_, Now()});
          return;
        }
        Abort();  // the others must not wait for data that this rank will not send
        cpu->Fail(std::move(status));
      },
      CollectiveName(op).data());
}

// Rank r adds the r-th part of all ranks' tensors, block by block, then sends the sum to all.
template <typename T>
absl::Status SocketCommunicator::AllReduceParts(T* data, int64_t elements) {
  const int64_t part = (elements + size() - 1) / size(), block = kBlockBytes / static_cast<int64_t>(sizeof(T));
  const auto begin = [&](int rank) { return std::min(elements, rank * part); };
  std::array<const T*, kMostRanks> parts;
  for (int64_t at = 0; at < part; at += block) {
    const auto here = [&](int rank) {  // elements of this block in that rank's part
      return std::clamp<int64_t>(begin(rank + 1) - begin(rank) - at, 0, block);
    };
    const int64_t mine = here(rank_);
    for (int peer = 0; peer < size(); ++peer) {
      T* staged = reinterpret_cast<T*>(staged_.data() + peer * kBlockBytes);
      parts[peer] = peer == rank_ ? data + begin(rank_) + at : staged;
      Give(peer, data + begin(peer) + at, here(peer) * sizeof(T));
      Take(peer, staged, mine * sizeof(T));
    }
    KINORA_RETURN_IF_ERROR(Exchange());
    AddInRankOrder<T>(absl::MakeConstSpan(parts.data(), size()), mine, data + begin(rank_) + at);
    ++call_.part;
  }
  for (int peer = 0; peer < size(); ++peer) {
    Give(peer, data + begin(rank_), (begin(rank_ + 1) - begin(rank_)) * sizeof(T));
    Take(peer, data + begin(peer), (begin(peer + 1) - begin(peer)) * sizeof(T));
  }
  return Exchange();
}

void SocketCommunicator::AllReduceSum(Tensor inout, Stream& stream) {
  CheckAllReduceSum(inout);
  Run(Collective::kAllReduceSum, inout, 0, stream, [this](const Tensor& x) {
    return x.dtype() == DType::kF32 ? AllReduceParts(static_cast<float*>(x.raw()), x.elements())
                                    : AllReduceParts(static_cast<bf16*>(x.raw()), x.elements());
  });
}

void SocketCommunicator::AllGather(const Tensor& local, Tensor all, Stream& stream) {
  CheckAllGather(*this, local, all);
  Run(Collective::kAllGather, local, 0, stream, [this, all = OnCpu(stream).Reach(all)](const Tensor& input) {
    char* to = static_cast<char*>(all.raw());
    for (int peer = 0; peer < size(); ++peer) {
      Give(peer, input.raw(), input.bytes());
      Take(peer, to + peer * input.bytes(), input.bytes());
    }
    char* const own = to + rank_ * input.bytes();
    if (own != input.raw()) CopyPart(own, input.raw(), input.bytes());
    return Exchange();
  });
}

void SocketCommunicator::AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) {
  CheckAllToAll(*this, send, recv, batches);
  Run(Collective::kAllToAll, send, 0, stream, [this, batches, recv = OnCpu(stream).Reach(recv)](const Tensor& input) {
    const int64_t part = input.bytes() / batches / size();
    for (int batch = 0; batch < batches; ++batch, ++call_.part) {
      const auto of = [&](const Tensor& x, int rank) {
        return static_cast<char*>(x.raw()) + (int64_t{batch} * size() + rank) * part;
      };
      for (int peer = 0; peer < size(); ++peer) {
        Give(peer, of(input, peer), part);
        Take(peer, of(recv, peer), part);
      }
      CopyPart(of(recv, rank_), of(input, rank_), part);
      KINORA_RETURN_IF_ERROR(Exchange());
    }
    return absl::OkStatus();
  });
}

void SocketCommunicator::Broadcast(int root, Tensor inout, Stream& stream) {
  CheckBroadcast(*this, root, inout);
  Run(Collective::kBroadcast, inout, root, stream, [this, root](const Tensor& x) {
    for (int peer = 0; peer < size(); ++peer) {
      if (rank_ == root) Give(peer, x.raw(), x.bytes());
      if (peer == root) Take(peer, x.raw(), x.bytes());
    }
    return Exchange();
  });
}

void SocketCommunicator::GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all,
                                  Stream& stream) {
  CheckGatherTo(*this, root, counts, local, all);
  const Tensor reached = rank_ == root ? OnCpu(stream).Reach(all) : Tensor();
  std::vector<int64_t> bytes(counts.begin(), counts.end());
  for (int64_t& n : bytes) n *= DTypeSize(local.dtype());
  Run(Collective::kGatherTo, local, root, stream, [this, root, reached, bytes](const Tensor& input) {
    if (rank_ != root) {
      Give(root, input.raw(), input.bytes());
      return Exchange();
    }
    char* to = static_cast<char*>(reached.raw());
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) CopyPart(to, input.raw(), input.bytes());
      Take(peer, to, bytes[peer]);
      to += bytes[peer];
    }
    return Exchange();
  });
}

}  // namespace kinora
