// A group of ranks that are processes on the CPU. Each pair has a connection (peer_links.h), which carries all
// collectives. Sums are added in rank order, in float32, and rounded once: the same bits as between ranks that are
// threads.
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

// Runs on CpuStreams only (CHECK). A collective that fails ends the group: it closes the connections, so every rank
// fails, with
//   Aborted   this rank or another called Abort, another has ended, or the network between them is cut (the kernel
//             notices after 20 s)
//   Internal  ranks called different collectives
// A rank that is alive but does not call is waited for without limit; that is a watchdog's task. Outside of captures no
// memory is allocated, except for the counts of GatherTo.
class SocketCommunicator : public Communicator {
 public:
  // links: by rank of the group, none at this rank's index; non-blocking.
  SocketCommunicator(int rank, std::vector<FileDescriptor> links);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links_.size()); }
  void AllReduceSum(Tensor inout, Stream& stream) override;
  void AllGather(const Tensor& local, Tensor all, Stream& stream) override;
  void AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) override;
  void Broadcast(int root, Tensor inout, Stream& stream) override;
  void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream& stream) override;
  void Abort() override;

 private:
  // The header that every rank sends before each exchange: its call.
  struct Call {
    uint64_t number = 0;  // counts the group's exchanges
    int64_t elements = 0;
    uint8_t op = 0, dtype = 0;
    uint16_t root = 0;
    uint32_t part = 0;  // step of a collective that needs several exchanges
  };
  // The bytes to and from one rank in one exchange.
  struct Transfer {
    Call sent, received;
    const char* out = nullptr;
    char* in = nullptr;
    int64_t out_bytes = 0, in_bytes = 0;  // payload
    int64_t out_done = 0, in_done = 0;    // including the Call
  };

  template <typename Move>
  void Run(Collective op, const Tensor& given, int root, Stream& stream, Move move);
  absl::Status AllReduceParts(const Tensor& inout);
  template <typename T>
  absl::Status AllReduceParts(T* data, int64_t elements);
  // Performs transfers_, which the caller has set for every other rank, all concurrently.
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
  int expected_ = 0;          // ranks whose first exchange of the current collective has not arrived
  absl::Time all_came_;       // when expected_ reached 0
  std::vector<char> staged_;  // a block of each rank, for sums
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_SOCKET_COMMUNICATOR_H_
