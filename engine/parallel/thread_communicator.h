// Ranks that are threads of one process: for the CPU, and for tests of everything that is sharded.
#ifndef KINORA_ENGINE_PARALLEL_THREAD_COMMUNICATOR_H_
#define KINORA_ENGINE_PARALLEL_THREAD_COMMUNICATOR_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/parallel/mesh.h"
#include "engine/tensor/cpu_stream.h"

namespace kinora {

// The meeting point of a group's ranks. Each publishes the address of its tensor, and all read each other's memory
// between two barriers.
class ThreadGroup {
 public:
  struct Call {  // equal on all ranks except `data` and, in a GatherTo, `elements`
    Collective op = Collective::kAllReduceSum;
    DType dtype = DType::kF32;
    int64_t elements = 0;
    int root = 0;
    void* data = nullptr;  // the input
  };

  explicit ThreadGroup(int size) : calls_(size) {}

  int size() const { return static_cast<int>(calls_.size()); }
  // Waits for all ranks' calls. Fails with Aborted if the group is or becomes aborted before all ranks have entered;
  // with Internal, and aborts the group, if their calls differ. After an OK, call(i) may be read until Leave, which
  // must follow and never fails: the other ranks' memory stays valid until then, even if the group is aborted
  // meanwhile.
  absl::Status Enter(int rank, const Call& call);
  void Leave();
  const Call& call(int rank) const { return calls_[rank]; }
  void Abort();

 private:
  absl::Status CheckCallsAgree() const;

  // Not absl::Mutex: ThreadSanitizer supports the standard ones without a special build of Abseil.
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  int entered_ = 0, left_ = 0;             // ranks in the current call
  uint64_t entries_ = 0, departures_ = 0;  // calls that all ranks have entered, and left
  bool aborted_ = false;
};

// Runs on CpuStreams only (CHECK), which also resolve the tensors' addresses. A successful call does not allocate.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  void AllReduceSum(Tensor inout, Stream& stream) override;
  void AllGather(const Tensor& local, Tensor all, Stream& stream) override;
  void AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) override;
  void Broadcast(int root, Tensor inout, Stream& stream) override;
  void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all, Stream& stream) override;
  void Abort() override { group_->Abort(); }

 private:
  template <typename Move>
  void Run(Collective op, const Tensor& given, int root, Stream& stream, Move move);
  template <typename T>
  void ReduceMyPart(int64_t elements);

  const std::shared_ptr<ThreadGroup> group_;
  const int rank_;
};

// Makes one mesh per rank, in rank order, each for one thread. Fails as MeshShape::Validate.
absl::StatusOr<std::vector<std::unique_ptr<Mesh>>> MakeThreadMeshes(const MeshShape& shape);

// Runs `body` on every rank of `meshes`, in rank order, concurrently: the first on the calling thread, each other on
// its own thread; waits for all. `meshes`: all ranks of the group, or those in this process. In a group of several, a
// rank that runs out of memory (std::bad_alloc) fails alone with ResourceExhausted. A rank that fails alone (agree.h)
// aborts its groups, so that no other waits for it; after an agreed failure the groups remain usable. The failure of a
// group of one is always agreed. Returns CauseOf (agree.h).
absl::Status OnEveryRank(absl::Span<const Mesh* const> meshes, absl::FunctionRef<absl::Status(const Mesh&)> body);

// As OnEveryRank, on meshes that it makes, so a failure carries no mark. Fails with InvalidArgument if the shape is
// invalid.
absl::Status RunThreadRanks(const MeshShape& shape, const std::function<absl::Status(const Mesh&)>& body);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_THREAD_COMMUNICATOR_H_
