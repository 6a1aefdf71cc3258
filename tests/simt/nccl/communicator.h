// Test only: a rank's side of one communicator of the simulated NCCL, and what its kernels do.
#ifndef KINORA_TESTS_SIMT_NCCL_COMMUNICATOR_H_
#define KINORA_TESTS_SIMT_NCCL_COMMUNICATOR_H_

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/processes/nccl_abi.h"
#include "tests/simt/nccl/segment.h"

namespace kinora::simt {

int64_t SizeOf(nccl::DataType type);  // bytes; 0: a type that the engine does not use

// A call of the interface, as it was made.
struct NcclCall {
  enum class Kind : uint32_t { kAllReduce, kAllGather, kAllToAll, kBroadcast, kSend, kReceive };
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  int64_t count = 0;
  nccl::DataType type = nccl::DataType::kFloat32;
  int root = 0;  // or the peer
  cudaStream_t stream = nullptr;

  const char* name() const;
  int64_t bytes() const { return count * SizeOf(type); }
};

// Shared by its handle, its kernels that are enqueued, and captures that hold some.
struct NcclCommunicator : std::enable_shared_from_this<NcclCommunicator> {
  std::shared_ptr<Segment> segment;
  std::string name;          // "world", "world/2:0": the third split's colour 0
  uint64_t id = 0;           // the same on all its ranks
  std::vector<int> members;  // of the segment's ranks, in this one's order
  int rank = 0;
  bool blocking = true;

  // Of calls, under the library's lock.
  enum class State : uint8_t { kReady, kComing, kFinalizing, kFinalized } state = State::kReady;
  std::function<nccl::Result(NcclCommunicator&)> coming;  // until it answers other than kInProgress
  int splits = 0, made_windows = 0;
  bool used = false;  // a collective was enqueued

  // Of its kernels too.
  std::atomic<bool> aborted = false;
  std::atomic<uint32_t> error = 0;  // a Result, asynchronous
  std::atomic<int> captures = 0;    // graphs' nodes that are of it
  uint64_t calls = 0;               // that ran; of the thread that runs kernels

  int size() const { return static_cast<int>(members.size()); }
  int me() const { return members[rank]; }

  // Puts one kernel for `calls` on their stream.
  cudaError_t Enqueue(std::vector<NcclCall> calls);

 private:
  struct Header;
  struct Transfer;
  struct Exchange;
  struct Waiting {  // of ranks, bit by bit
    uint32_t to_hear_from, to_be_read_by;
  };

  void Run(const std::vector<NcclCall>& calls);
  bool RunCollective(const NcclCall& call);
  bool RunSendsAndReceives(const std::vector<NcclCall>& calls);
  bool Move(Exchange& exchange);
  bool MoveSome(Exchange& exchange, Waiting* waiting);
  Header HeaderOf(const NcclCall& call) const;
  void Hang();  // as a kernel whose peers do not answer: until an abort
};

// How many kernels of this process wait for other ranks now.
std::atomic<int>& NcclKernelsThatWait();
// Of the kernel that runs `after` others from now: it hangs, and its communicator answers `error`.
void BreakLater(nccl::Result error, int after);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_NCCL_COMMUNICATOR_H_
