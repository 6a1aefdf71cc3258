// A group of ranks that are processes on the CPU: each pair has a connection (peer_links.h), over which all collectives
// go. Sums are added in rank order, in float32, rounded once: the bits of ranks that are threads.
#ifndef KINORA_ENGINE_PROCESSES_SOCKET_COMMUNICATOR_H_
#define KINORA_ENGINE_PROCESSES_SOCKET_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/file_descriptor.h"
#include "engine/parallel/communicator.h"
#include "engine/tensor/cpu_stream.h"

namespace kinora {

// Runs on CpuStreams only (CHECK). A collective that fails ends the group: its connections are closed, so every rank
// fails, with
//   Aborted   this rank or another called Abort, another has ended, or the network between them is cut (the kernel
//             notices after 20 s)
//   Internal  ranks called different collectives
// A rank that is alive and does not come is waited for: a watchdog's business. Outside of captures no memory is
// allocated, but for the counts of GatherTo.
class SocketCommunicator : public Communicator {
 public:
  // links: by rank of the group, none at this rank's own place; not blocking.
  SocketCommunicator(int rank, std::vector<FileDescriptor> links);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  void AllReduceSum(Tensor inout, Stream& stream) override;
  void AllGather(const Tensor& local, Tensor all, Stream& stream) override;
  void AllToAll(const Tensor& send, Tensor recv, Stream& stream) override;
  void Broadcast(int root, Tensor inout, Stream& stream) override;
  void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream& stream) override;
  void Abort() override;

 private:
  // What every rank says before each exchange: what it was asked for.
  struct Call {
    uint64_t number = 0;  // of the group's exchanges
    int64_t elements = 0;
    uint8_t op = 0, dtype = 0;
    uint16_t root = 0;
    uint32_t part = 0;  // of a collective that takes several exchanges
  };
  // Its bytes to and from one rank in one exchange.
  struct Transfer {
    Call sent, received;
    const char* out = nullptr;
    char* in = nullptr;
    int64_t out_bytes = 0, in_bytes = 0;  // of the payload
    int64_t out_done = 0, in_done = 0;    // the call's bytes included
  };

  template <typename Move>
  void Run(Collective op, const Tensor& given, int root, Stream& stream, Move move);
  absl::Status AllReduceParts(const Tensor& inout);
  template <typename T>
  absl::Status AllReduceParts(T* data, int64_t elements);
  // Sends and receives what transfers_ say, which the caller has set for every other rank, all at once.
  absl::Status Exchange();
  absl::Status Progress(int peer, bool& moved);
  absl::Status CheckCall(int peer) const;
  void Give(int peer, const void* bytes, int64_t count);
  void Take(int peer, void* bytes, int64_t count);
  absl::Status Lost(int peer, const char* how) const;

  const int rank_;
  const std::vector<FileDescriptor> links_;
  std::atomic<bool> aborted_ = false;
  Call call_;
  std::vector<Transfer> transfers_;
  int expected_ = 0;          // ranks that have not come to the present collective; their first exchange counts
  absl::Time all_came_;       // when none was left of them
  std::vector<char> staged_;  // a block of each rank's, while they are added up
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_SOCKET_COMMUNICATOR_H_
