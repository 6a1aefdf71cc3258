#include "engine/parallel/dry_communicator.h"

#include "absl/strings/str_cat.h"

namespace kinora {

void DryCommunicator::AllReduceSum(Tensor inout, Stream&) {
  CheckAllReduceSum(inout);
  Count(Collective::kAllReduceSum, BytesSent(Collective::kAllReduceSum, inout.bytes(), size_));
}

void DryCommunicator::AllGather(const Tensor& local, Tensor all, Stream&) {
  CheckAllGather(*this, local, all);
  Count(Collective::kAllGather, BytesSent(Collective::kAllGather, local.bytes(), size_));
}

void DryCommunicator::AllToAll(const Tensor& send, Tensor recv, int batches, Stream&) {
  CheckAllToAll(*this, send, recv, batches);
  Count(Collective::kAllToAll, BytesSent(Collective::kAllToAll, send.bytes(), size_));
}

void DryCommunicator::Broadcast(int root, Tensor inout, Stream&) {
  CheckBroadcast(*this, root, inout);
  Count(Collective::kBroadcast, BytesSent(Collective::kBroadcast, inout.bytes(), size_, rank_ == root));
}

void DryCommunicator::GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream&) {
  CheckGatherTo(*this, root, counts, local, all);
  Count(Collective::kGatherTo, BytesSent(Collective::kGatherTo, local.bytes(), size_, rank_ == root));
}

absl::StatusOr<std::unique_ptr<Mesh>> MakeDryMesh(const MeshShape& shape, int rank) {
  if (absl::Status valid = shape.Validate(); !valid.ok()) return valid;
  if (rank < 0 || rank >= shape.ranks()) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of a group of ", shape.ranks()));
  }
  return MakeMesh(shape, rank, [](MeshAxis, absl::Span<const int> members, int rank_in_group) {
    return std::make_unique<DryCommunicator>(rank_in_group, static_cast<int>(members.size()));
  });
}

}  // namespace kinora
