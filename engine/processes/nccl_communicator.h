// Ranks that are processes with a CUDA device each, on NCCL.
//
// Collectives run on a CudaStream, in captures too. NCCL's own order of addition, in float32 on the way: a sum of more
// than two ranks may differ in its last bits from one in rank order. A rank's graphs must end before its mesh.
#ifndef KINORA_ENGINE_PROCESSES_NCCL_COMMUNICATOR_H_
#define KINORA_ENGINE_PROCESSES_NCCL_COMMUNICATOR_H_

#include <memory>
#include <string_view>

#include "engine/parallel/mesh.h"
#include "engine/processes/nccl_group.h"

namespace kinora {

// This rank's mesh, made with all the others' of `shape`: one world, split into the axes' groups. On the current
// device. The rendezvous is thread-safe and outlives it. Errors as NcclGroup::Join.
absl::StatusOr<std::unique_ptr<Mesh>> MakeNcclMesh(const MeshShape& shape, int rank, Rendezvous& rendezvous,
                                                   NcclGroup::Options options = {});

// Device memory for what collectives of `mesh` read and write, reserved by all ranks alike and at once: NCCL then
// copies from device to device without buffers in between, by copy engines where a call only copies. Of a mesh of one
// rank: InvalidArgument. ResourceExhausted: no room.
absl::StatusOr<Buffer> AllocateNcclWindow(const Mesh& mesh, int64_t bytes, std::string_view what);

class NcclCommunicator : public Communicator {
 public:
  // number: the group's, in which this is `rank` of `size`.
  NcclCommunicator(std::shared_ptr<NcclGroup> group, int number, int size, int rank)
      : group_(std::move(group)), number_(number), size_(size), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void AllReduceSum(Tensor inout, Stream& stream) override;
  void AllGather(const Tensor& local, Tensor all, Stream& stream) override;
  void AllToAll(const Tensor& send, Tensor recv, Stream& stream) override;
  void Broadcast(int root, Tensor inout, Stream& stream) override;
  void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream& stream) override;
  // Of all groups of this rank's mesh, here and on the other ranks.
  void Abort() override { group_->Abort("the group of ranks was aborted"); }

  NcclGroup& group() const { return *group_; }

 private:
  template <typename F>
  void Run(Collective op, const Tensor& input, bool root, CudaStream& stream, F enqueue);

  const std::shared_ptr<NcclGroup> group_;
  const int number_, size_, rank_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_NCCL_COMMUNICATOR_H_
