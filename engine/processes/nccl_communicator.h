// Communicators on NCCL, for ranks that are processes with a CUDA device each.
//
// Collectives run on a CudaStream and can be captured. NCCL adds in its own order, in float32, so a sum over more than
// two ranks may differ in its last bits from one in rank order. A rank's graphs must be destroyed before its mesh.
#ifndef KINORA_ENGINE_PROCESSES_NCCL_COMMUNICATOR_H_
#define KINORA_ENGINE_PROCESSES_NCCL_COMMUNICATOR_H_

#include <memory>
#include <utility>

#include "engine/parallel/mesh.h"
#include "engine/processes/nccl_group.h"

namespace kinora {

// Makes this rank's mesh on the current device, together with all other ranks of `shape`: one world, split into the
// axes' groups. The rendezvous must be thread-safe and outlive the mesh. Fails as NcclGroup::Join.
absl::StatusOr<std::unique_ptr<Mesh>> MakeNcclMesh(const MeshShape& shape, int rank, Rendezvous& rendezvous,
                                                   NcclGroup::Options options = {});

class NcclCommunicator : public Communicator {
 public:
  // number: the communicator's in the group, in which this is rank `rank` of `size`.
  NcclCommunicator(std::shared_ptr<NcclGroup> group, int number, int size, int rank)
      : group_(std::move(group)), number_(number), size_(size), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void AllReduceSum(Tensor inout, Stream& stream) override;
  void AllGather(const Tensor& local, Tensor all, Stream& stream) override;
  void AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) override;
  void Broadcast(int root, Tensor inout, Stream& stream) override;
  void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream& stream) override;
  // Aborts all groups of this rank's mesh, here and on the other ranks.
  void Abort() override { group_->Abort("the group of ranks was aborted"); }

 private:
  template <typename F>
  void Run(Collective op, const Tensor& input, bool root, CudaStream& stream, F enqueue);

  const std::shared_ptr<NcclGroup> group_;
  const int number_, size_, rank_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_PROCESSES_NCCL_COMMUNICATOR_H_
