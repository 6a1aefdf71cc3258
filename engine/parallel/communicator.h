// One group of ranks. Collectives are enqueued on a stream, so they can be captured; every rank of the group must call
// the same ones in the same order. Tensors are contiguous and of the device; a communicator knows the kind of stream it
// runs on, and asks it how its work addresses them. Failures (a lost rank, Abort) are the stream's.
#ifndef KINORA_ENGINE_PARALLEL_COMMUNICATOR_H_
#define KINORA_ENGINE_PARALLEL_COMMUNICATOR_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/trace.h"
#include "engine/tensor/stream.h"

namespace kinora {

enum class Collective : uint8_t { kAllReduceSum, kAllGather, kAllToAll, kBroadcast, kGatherTo };
inline constexpr int kCollectives = 5;
std::string_view CollectiveName(Collective op);  // "all_reduce_sum", …

// How a mesh divides its ranks, and all of them.
enum class MeshAxis : uint8_t { kTensor, kTokens, kGuidance, kWorld };
inline constexpr int kMeshAxes = 4;
std::string_view MeshAxisName(MeshAxis axis);  // "tensor", …

struct CollectiveCount {
  int64_t calls = 0;
  int64_t bytes = 0;  // sent by this rank
};
using CollectiveCounts = std::array<CollectiveCount, kCollectives>;

// What one rank of `size` sends in a call whose input on that rank is `bytes`: 2(n−1)/n of them to reduce (scatter,
// then gather), n−1 times them to gather, (n−1)/n of them to exchange; a broadcast's root sends them once, and so does
// everybody but the root of a gather to one. What the links carry at least, whatever the backend.
int64_t BytesSent(Collective op, int64_t bytes, int size, bool root = false);

// One call as a rank has seen it. wait: the part of `seconds` until the slowest rank had come; the rest is moving and
// adding. Next to nothing on the rank that came last. Unknown where a library waits and moves in one.
struct CollectiveCall {
  MeshAxis axis;
  Collective op;
  int64_t bytes;  // as counted
  double seconds;
  std::optional<double> wait_seconds;
};

// Hears of each call that succeeded, of a captured one at each replay, on the rank's thread: at once, or of a device
// once the rank has waited for it. Must be quick, and allocates nothing. Ranks that are threads may share one.
class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;
  virtual void OnCollective(const CollectiveCall& call) = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Every rank gets the sum of all, added in rank order: the same bits on every rank; f32 or bf16.
  virtual void AllReduceSum(Tensor inout, Stream& stream) = 0;
  // all: size() times local, in rank order.
  virtual void AllGather(const Tensor& local, Tensor all, Stream& stream) = 0;
  // The i-th of size() equal parts of `send` goes to rank i; recv gets theirs, in rank order.
  virtual void AllToAll(const Tensor& send, Tensor recv, Stream& stream) = 0;
  // Every rank gets what rank `root` has.
  virtual void Broadcast(int root, Tensor inout, Stream& stream) = 0;
  // `root` alone gets every rank's `local`, one after another in rank order. counts: the elements of each rank's, 0 for
  // one that sends nothing; size() numbers, the same on every rank. all: their sum, on root; not looked at elsewhere.
  virtual void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all,
                        Stream& stream) = 0;
  // Makes every collective of the group, running or later, fail with Aborted on every rank. Thread-safe.
  virtual void Abort() = 0;

  // Calls are measured from now on, for `observer`, by `clock` or the device's; neither is owned. Before the group's
  // first call.
  void Observe(CollectiveObserver& observer, const Clock& clock);
  void set_axis(MeshAxis axis) { axis_ = axis; }  // for observers and traces; by the mesh

  // Since construction; counted when enqueued or replayed.
  const CollectiveCounts& counts() const { return counts_; }
  // Since construction, of the calls that are measured: until the slowest rank had come.
  double wait_seconds() const { return wait_seconds_; }

 protected:
  void Count(Collective op, int64_t bytes) {
    ++counts_[static_cast<int>(op)].calls;
    counts_[static_cast<int>(op)].bytes += bytes;
  }
  // When a call began, when all ranks had come, when it ended: `Now` at each, then all three to `Measured`.
  absl::Time Now() const { return clock_->Now(); }
  struct Moments {
    absl::Time begin, all_came, end;
  };
  void Measured(Collective op, int64_t bytes, const Moments& at);
  // Or, where more is not known, how long it took.
  void Measured(Collective op, int64_t bytes, absl::Duration took);
  bool observed() const { return observer_ != nullptr; }

 private:
  CollectiveCounts counts_{};
  double wait_seconds_ = 0;
  MeshAxis axis_ = MeshAxis::kWorld;
  CollectiveObserver* observer_ = nullptr;
  const Clock* clock_ = &Clock::Steady();
};

// memcpy that takes nothing from nowhere: a rank's part may be empty, and have no address. For its implementations.
inline void CopyPart(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
// CHECK-fail unless the arguments of a collective fit together; for its implementations.
void CheckAllReduceSum(const Tensor& inout);
void CheckAllGather(const Communicator& group, const Tensor& local, const Tensor& all);
void CheckAllToAll(const Communicator& group, const Tensor& send, const Tensor& recv);
void CheckBroadcast(const Communicator& group, int root, const Tensor& inout);
void CheckGatherTo(const Communicator& group, int root, absl::Span<const int64_t> counts, const Tensor& local,
                   const Tensor& all);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_COMMUNICATOR_H_
