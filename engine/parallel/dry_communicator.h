// A rank of a group whose other ranks do not exist: counts the bytes that a run would send.
#ifndef KINORA_ENGINE_PARALLEL_DRY_COMMUNICATOR_H_
#define KINORA_ENGINE_PARALLEL_DRY_COMMUNICATOR_H_

#include <memory>

#include "engine/parallel/mesh.h"

namespace kinora {

// Checks shapes as a real communicator does; touches neither the tensors nor the stream.
class DryCommunicator : public Communicator {
 public:
  DryCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void AllReduceSum(Tensor inout, Stream& stream) override;
  void AllGather(const Tensor& local, Tensor all, Stream& stream) override;
  void AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) override;
  void Broadcast(int root, Tensor inout, Stream& stream) override;
  void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream& stream) override;
  void Abort() override {}

 private:
  const int rank_, size_;
};

// Makes the mesh of rank `rank` of a shape. Fails as MeshShape::Validate, and with InvalidArgument if the shape has no
// such rank.
absl::StatusOr<std::unique_ptr<Mesh>> MakeDryMesh(const MeshShape& shape, int rank = 0);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_DRY_COMMUNICATOR_H_
