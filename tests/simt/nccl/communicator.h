// Test only: one rank's side of a communicator of the simulated NCCL, and its kernels.
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

int64_t SizeOf(nccl::DataType type);  // bytes; 0 for types that the engine does not use

// The arguments of a call of the interface.
struct NcclCall {
  enum class Kind : uint32_t { kAllReduce, kAllGather, kAllToAll, kBroadcast, kSend, kReceive };
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  int64_t count = 0;
  nccl::DataType type = nccl::DataType::kFloat32;
  int root = 0;  // of a broadcast; peer of a send or receive
  cudaStream_t stream = nullptr;

  const char* name() const;
  int64_t bytes() const { return count * SizeOf(type); }
};

// Shared by its handle, its enqueued kernels, and the captures that contain them.
struct NcclCommunicator : std::enable_shared_from_this<NcclCommunicator> {
  std::shared_ptr<Segment> segment;
  std::string name;          // "world", "world/2:0": the third split's colour 0
  uint64_t id = 0;           // identical on all ranks
  std::vector<int> members;  // ranks of the segment, in this communicator's order
  int rank = 0;
  bool blocking = true;

  // Used by calls, under the library's lock.
  enum class State : uint8_t { kReady, kComing, kFinalizing, kFinalized } state = State::kReady;
  std::function<nccl::Result(NcclCommunicator&)> coming;  // polled until it does not return kInProgress
  int splits = 0;
  bool used = false;  // a collective was enqueued

  // Also used by kernels.
  std::atomic<bool> aborted = false;
  std::atomic<uint32_t> error = 0;  // an asynchronous Result
  std::atomic<int> captures = 0;    // graph nodes of this communicator
  uint64_t calls = 0;               // executed so far; used only by the thread that runs kernels

  int size() const { return static_cast<int>(members.size()); }
  int me() const { return members[rank]; }

  // Enqueues one kernel for `calls` on their stream.
  cudaError_t Enqueue(std::vector<NcclCall> calls);

 private:
  struct Header;
  struct Transfer;
  struct Exchange;
  struct Waiting {  // bit masks of ranks
    uint32_t to_hear_from, to_be_read_by;
  };

  void Run(const std::vector<NcclCall>& calls);
  bool RunCollective(const NcclCall& call);
  bool RunSendsAndReceives(const std::vector<NcclCall>& calls);
  bool Move(Exchange& exchange);
  bool MoveSome(Exchange& exchange, Waiting* waiting);
  Header HeaderOf(const NcclCall& call) const;
  void Hang();  // blocks until an abort, like a kernel whose peers do not answer
};

// The number of kernels of this process that are waiting for other ranks.
std::atomic<int>& NcclKernelsThatWait();
// After `after` more kernels, makes the next one hang and sets its communicator's asynchronous error to `error`.
void BreakLater(nccl::Result error, int after);

}  // namespace kinora::simt

#endif  // KINORA_TESTS_SIMT_NCCL_COMMUNICATOR_H_
