#include "engine/parallel/thread_communicator.h"

#include <algorithm>
#include <map>
#include <new>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/agree.h"

namespace kinora {

namespace {

std::string Describe(const ThreadGroup::Call& call) {
  return absl::StrCat(std::string(CollectiveName(call.op)), " of ", call.elements, " ",
                      std::string(DTypeName(call.dtype)));
}

}  // namespace

absl::Status ThreadGroup::CheckCallsAgree() const {
  const Call& first = calls_[0];
  for (int i = 1; i < size(); ++i) {
    const Call& other = calls_[i];
    const bool sizes_agree = other.elements == first.elements || first.op == Collective::kGatherTo;
    if (other.op == first.op && other.dtype == first.dtype && sizes_agree && other.root == first.root) {
      continue;
    }
    return absl::InternalError(absl::StrCat("the ranks of a group called different collectives: rank 0 ",
                                            Describe(first), ", rank ", i, " ", Describe(other)));
  }
  return absl::OkStatus();
}

absl::Status ThreadGroup::Enter(int rank, const Call& call) {
  std::unique_lock lock(mu_);
  if (!aborted_) {
    calls_[rank] = call;
    const uint64_t entry = entries_;
    if (++entered_ == size()) {
      entered_ = 0;
      ++entries_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return aborted_ || entries_ != entry; });
    }
    if (entries_ != entry) {  // all ranks entered, even if the group was aborted since
      absl::Status agreed = CheckCallsAgree();
      if (!agreed.ok()) aborted_ = true;  // every rank finds the same disagreement, so none of them calls Leave
      return agreed;
    }
  }
  return absl::AbortedError("the group of ranks was aborted");
}

void ThreadGroup::Leave() {
  // Abort does not end this wait: all ranks have entered and only copy, so all arrive, and none may free its memory
  // before.
  std::unique_lock lock(mu_);
  const uint64_t departure = departures_;
  if (++left_ == size()) {
    left_ = 0;
    ++departures_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return departures_ != departure; });
  }
}

void ThreadGroup::Abort() {
  const std::lock_guard lock(mu_);
  aborted_ = true;
  changed_.notify_all();
}

template <typename Move>
void ThreadCommunicator::Run(Collective op, const Tensor& given, int root, Stream& stream, Move move) {
  CpuStream* cpu = &OnCpu(stream);
  const Tensor input = cpu->Reach(given);
  cpu->Enqueue(
      [this, op, input, root, cpu, move] {
        const int64_t bytes = BytesSent(op, input.bytes(), size(), rank_ == root);
        Count(op, bytes);
        const absl::Time begin = Now();
        absl::Status entered = group_->Enter(rank_, {op, input.dtype(), input.elements(), root, input.raw()});
        if (!entered.ok()) {
          cpu->Fail(std::move(entered));
          return;
        }
        const absl::Time all_came = Now();
        move();
        group_->Leave();
        Measured(op, bytes, {begin, all_came, Now()});
      },
      CollectiveName(op).data());
}

// Rank r adds the r-th part of all ranks' tensors and writes the sum to all of them. That needs no extra memory and
// fixes the order of addition.
template <typename T>
void ThreadCommunicator::ReduceMyPart(int64_t elements) {
  constexpr int64_t kLine = 64 / sizeof(T);  // parts end at cache lines, so that no two ranks write the same one
  const int64_t part = ((elements + size() - 1) / size() + kLine - 1) / kLine * kLine;
  const int64_t begin = std::min(elements, rank_ * part), end = std::min(elements, begin + part);
  constexpr int64_t kBlock = 1024;
  float sum[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    const T* first = static_cast<const T*>(group_->call(0).data) + at;
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<float>(first[i]);
    for (int rank = 1; rank < size(); ++rank) {
      const T* other = static_cast<const T*>(group_->call(rank).data) + at;
      for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<float>(other[i]);
    }
    for (int rank = 0; rank < size(); ++rank) {
      T* out = static_cast<T*>(group_->call(rank).data) + at;
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(sum[i]);
    }
  }
}

void ThreadCommunicator::AllReduceSum(Tensor inout, Stream& stream) {
  CheckAllReduceSum(inout);
  Run(Collective::kAllReduceSum, inout, 0, stream, [this, inout] {
    inout.dtype() == DType::kF32 ? ReduceMyPart<float>(inout.elements()) : ReduceMyPart<bf16>(inout.elements());
  });
}

void ThreadCommunicator::AllGather(const Tensor& local, Tensor all, Stream& stream) {
  CheckAllGather(*this, local, all);
  Run(Collective::kAllGather, local, 0, stream, [this, local, all = OnCpu(stream).Reach(all)] {
    for (int rank = 0; rank < size(); ++rank) {
      char* to = static_cast<char*>(all.raw()) + rank * local.bytes();
      const void* from = group_->call(rank).data;
      if (to != from) CopyPart(to, from, local.bytes());  // equal: `local` is already part of `all`
    }
  });
}

void ThreadCommunicator::AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) {
  CheckAllToAll(*this, send, recv, batches);
  Run(Collective::kAllToAll, send, 0, stream, [this, send, batches, recv = OnCpu(stream).Reach(recv)] {
    const int64_t run = send.bytes() / batches, part = run / size();
    for (int batch = 0; batch < batches; ++batch) {
      for (int rank = 0; rank < size(); ++rank) {
        CopyPart(static_cast<char*>(recv.raw()) + batch * run + rank * part,
                 static_cast<const char*>(group_->call(rank).data) + batch * run + rank_ * part, part);
      }
    }
  });
}

void ThreadCommunicator::Broadcast(int root, Tensor inout, Stream& stream) {
  CheckBroadcast(*this, root, inout);
  Run(Collective::kBroadcast, inout, root, stream, [this, root, inout = OnCpu(stream).Reach(inout)] {
    if (rank_ != root) CopyPart(inout.raw(), group_->call(root).data, inout.bytes());
  });
}

void ThreadCommunicator::GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all,
                                  Stream& stream) {
  CheckGatherTo(*this, root, counts, local, all);
  const Tensor reached = rank_ == root ? OnCpu(stream).Reach(all) : Tensor();
  Run(Collective::kGatherTo, local, root, stream, [this, root, all = reached] {
    if (rank_ != root) return;
    int64_t elements = 0;
    for (int rank = 0; rank < size(); ++rank) elements += group_->call(rank).elements;
    KINORA_CHECK_EQ(elements, all.elements()) << ": the ranks' counts differ";
    char* to = static_cast<char*>(all.raw());
    for (int rank = 0; rank < size(); ++rank) {
      const int64_t bytes = group_->call(rank).elements * DTypeSize(all.dtype());
      CopyPart(to, group_->call(rank).data, bytes);
      to += bytes;
    }
  });
}

absl::StatusOr<std::vector<std::unique_ptr<Mesh>>> MakeThreadMeshes(const MeshShape& shape) {
  if (absl::Status valid = shape.Validate(); !valid.ok()) return valid;
  std::map<std::tuple<MeshAxis, int, size_t>, std::shared_ptr<ThreadGroup>> groups;
  const auto make = [&groups](MeshAxis axis, absl::Span<const int> members, int rank) {
    std::shared_ptr<ThreadGroup>& group = groups[{axis, members[0], members.size()}];
    if (group == nullptr) group = std::make_shared<ThreadGroup>(static_cast<int>(members.size()));
    return std::make_unique<ThreadCommunicator>(group, rank);
  };
  std::vector<std::unique_ptr<Mesh>> meshes;
  meshes.reserve(shape.ranks());
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    KINORA_ASSIGN_OR_RETURN(meshes.emplace_back(), MakeMesh(shape, rank, make));
  }
  return meshes;
}

absl::Status OnEveryRank(absl::Span<const Mesh* const> meshes, absl::FunctionRef<absl::Status(const Mesh&)> body) {
  std::vector<absl::Status> results(meshes.size());
  const bool alone = meshes[0]->world().size() == 1;
  const auto run = [&](size_t i) {
    const int rank = meshes[i]->world().rank();
    SetTraceRank(rank);
    try {
      results[i] = body(*meshes[i]);
    } catch (const std::bad_alloc&) {  // in a group, the other ranks may be waiting
      if (alone) throw;
      results[i] = absl::ResourceExhaustedError(absl::StrCat("rank ", rank, ": out of memory"));
    }
    if (alone) results[i] = Agreed(std::move(results[i]));
    if (!IsAgreed(results[i])) meshes[i]->Abort();
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < meshes.size(); ++i) threads.emplace_back(run, i);
  run(0);
  for (std::thread& thread : threads) thread.join();
  return CauseOf(results);
}

absl::Status RunThreadRanks(const MeshShape& shape, const std::function<absl::Status(const Mesh&)>& body) {
  const auto made = MakeThreadMeshes(shape);
  if (!made.ok()) return made.status();
  std::vector<const Mesh*> meshes;
  for (const auto& mesh : *made) meshes.push_back(mesh.get());
  return WithoutMark(OnEveryRank(meshes, body));
}

}  // namespace kinora
