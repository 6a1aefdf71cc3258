#include "engine/processes/nccl_communicator.h"

#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace kinora {
namespace {

using nccl::DataType;
using nccl::Result;

CudaStream& OnCuda(Stream& stream) {
  auto* const cuda = dynamic_cast<CudaStream*>(&stream);
  KINORA_CHECK(cuda != nullptr) << "NCCL needs a CUDA stream";
  return *cuda;
}

// A tensor as NCCL counts it: f32 or bf16 elements, which it can add, or bytes.
struct Elements {
  explicit Elements(const Tensor& x, int64_t part = 1)
      : type(x.dtype() == DType::kF32    ? DataType::kFloat32
             : x.dtype() == DType::kBF16 ? DataType::kBfloat16
                                         : DataType::kUint8),
        count(x.elements() / part * (type == DataType::kUint8 ? DTypeSize(x.dtype()) : 1)),
        bytes(x.bytes() / part) {}
  DataType type;
  size_t count;
  int64_t bytes;
};

Result First(Result a, Result b) { return a == Result::kSuccess || a == Result::kInProgress ? b : a; }

// Makes `calls` one NCCL group, which ends even if one of the calls fails.
template <typename F>
Result Grouped(const nccl::Functions& nccl, F calls) {
  if (const Result begun = nccl.GroupStart(); begun != Result::kSuccess) return begun;
  const Result called = calls();
  const Result ended = nccl.GroupEnd();
  return First(called, ended);
}

}  // namespace

template <typename F>
void NcclCommunicator::Run(Collective op, const Tensor& input, bool root, CudaStream& stream, F enqueue) {
  stream.Heed(group_->interruption());
  const char* const name = CollectiveName(op).data();
  const int64_t bytes = BytesSent(op, input.bytes(), size_, root);
  stream.Enqueue(name, input, [&](cudaStream_t handle) {
    const auto call = [&] {
      return group_->Call(number_, name,
                          [&](const nccl::Functions& nccl, nccl::Comm comm) { return enqueue(nccl, comm, handle); });
    };
    absl::Status status = observed()
                              ? group_->timer().Around(
                                    stream, call, [this, op, bytes](absl::Duration took) { Measured(op, bytes, took); })
                              : call();
    if (status.ok()) stream.AtEachRun([this, op, bytes] { Count(op, bytes); });
    return status;
  });
}

void NcclCommunicator::AllReduceSum(Tensor inout, Stream& stream) {
  CheckAllReduceSum(inout);
  Run(Collective::kAllReduceSum, inout, false, OnCuda(stream), [&](const auto& nccl, nccl::Comm comm, cudaStream_t s) {
    const Elements x(inout);
    return nccl.AllReduce(inout.raw(), inout.raw(), x.count, x.type, nccl::Reduction::kSum, comm, s);
  });
}

void NcclCommunicator::AllGather(const Tensor& local, Tensor all, Stream& stream) {
  CheckAllGather(*this, local, all);
  Run(Collective::kAllGather, local, false, OnCuda(stream), [&](const auto& nccl, nccl::Comm comm, cudaStream_t s) {
    const Elements x(local);
    return nccl.AllGather(local.raw(), all.raw(), x.count, x.type, comm, s);
  });
}

void NcclCommunicator::AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) {
  CheckAllToAll(*this, send, recv, batches);
  Run(Collective::kAllToAll, send, false, OnCuda(stream), [&](const auto& nccl, nccl::Comm comm, cudaStream_t s) {
    const Elements part(send, int64_t{batches} * size());
    const auto run = [&](const char* from, char* to) {
      if (nccl.AlltoAll != nullptr) return nccl.AlltoAll(from, to, part.count, part.type, comm, s);
      Result result = Result::kSuccess;
      for (int rank = 0; rank < size(); ++rank) {
        const int64_t at = rank * part.bytes;
        result = First(result, nccl.Send(from + at, part.count, part.type, rank, comm, s));
        result = First(result, nccl.Recv(to + at, part.count, part.type, rank, comm, s));
      }
      return result;
    };
    const auto* const from = static_cast<const char*>(send.raw());
    auto* const to = static_cast<char*>(recv.raw());
    if (batches == 1 && nccl.AlltoAll != nullptr) return run(from, to);
    return Grouped(nccl, [&] {
      Result result = Result::kSuccess;
      for (int batch = 0; batch < batches; ++batch) {
        const int64_t at = batch * size() * part.bytes;
        result = First(result, run(from + at, to + at));
      }
      return result;
    });
  });
}

void NcclCommunicator::Broadcast(int root, Tensor inout, Stream& stream) {
  CheckBroadcast(*this, root, inout);
  Run(Collective::kBroadcast, inout, rank_ == root, OnCuda(stream),
      [&](const auto& nccl, nccl::Comm comm, cudaStream_t s) {
        const Elements x(inout);
        return nccl.Broadcast(inout.raw(), inout.raw(), x.count, x.type, root, comm, s);
      });
}

// NCCL gathers only equal parts, so this uses sends and receives, none for an empty part.
void NcclCommunicator::GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all,
                                Stream& stream) {
  CheckGatherTo(*this, root, counts, local, all);
  CudaStream& cuda = OnCuda(stream);
  const Elements x(local);
  const int64_t each = DTypeSize(local.dtype()), scale = x.type == DataType::kUint8 ? each : 1;
  Tensor own;  // this rank's part of `all`
  Run(Collective::kGatherTo, local, rank_ == root, cuda, [&](const auto& nccl, nccl::Comm comm, cudaStream_t s) {
    return Grouped(nccl, [&] {
      if (rank_ != root) {
        return counts[rank_] == 0 ? Result::kSuccess : nccl.Send(local.raw(), x.count, x.type, root, comm, s);
      }
      Result result = Result::kSuccess;
      auto* at = static_cast<char*>(all.raw());
      for (int rank = 0; rank < size(); ++rank) {
        if (rank == rank_) own = Tensor(local.dtype(), local.shape(), at);
        if (rank != rank_ && counts[rank] > 0) {
          result = First(result, nccl.Recv(at, counts[rank] * scale, x.type, rank, comm, s));
        }
        at += counts[rank] * each;
      }
      return result;
    });
  });
  if (own.defined() && own.raw() != local.raw()) cuda.Copy(local, own);
}

absl::StatusOr<std::unique_ptr<Mesh>> MakeNcclMesh(const MeshShape& shape, int rank, Rendezvous& rendezvous,
                                                   NcclGroup::Options options) {
  KINORA_RETURN_IF_ERROR(shape.Validate());
  if (shape.ranks() == 1) return Mesh::Single();
  KINORA_ASSIGN_OR_RETURN(const std::shared_ptr<NcclGroup> group,
                          NcclGroup::Join(rank, shape.ranks(), rendezvous, std::move(options)));
  // An axis of all ranks is the world. All ranks split off the other axes' groups in the same order.
  const auto make = [&](MeshAxis, absl::Span<const int> members,
                        int rank_in_group) -> absl::StatusOr<std::unique_ptr<Communicator>> {
    const int size = static_cast<int>(members.size());
    int communicator = 0;
    if (size < shape.ranks()) {
      KINORA_ASSIGN_OR_RETURN(communicator, group->Split(members[0], rank_in_group));
    }
    return std::make_unique<NcclCommunicator>(group, communicator, size, rank_in_group);
  };
  absl::StatusOr<std::unique_ptr<Mesh>> mesh = MakeMesh(shape, rank, make);
  if (!mesh.ok()) group->Abort(std::string(mesh.status().message()));
  return mesh;
}

}  // namespace kinora
