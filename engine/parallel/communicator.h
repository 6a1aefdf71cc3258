// One group of ranks. Collectives are enqueued on a stream, so they can be captured. All ranks of the group must call
// the same collectives in the same order. Tensors are contiguous device tensors; an implementation requires its own
// kind of stream, which resolves their addresses. The stream reports failures (a lost rank, Abort).
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

// The axes by which a mesh divides its ranks, and the group of all ranks.
enum class MeshAxis : uint8_t { kTensor, kTokens, kGuidance, kWorld };
inline constexpr int kMeshAxes = 4;
std::string_view MeshAxisName(MeshAxis axis);  // "tensor", …

struct CollectiveCount {
  int64_t calls = 0;
  int64_t bytes = 0;  // sent by this rank
};
using CollectiveCounts = std::array<CollectiveCount, kCollectives>;

// Returns the bytes that one of n = `size` ranks sends in a call with an input of `bytes` on that rank. The links carry
// at least this, whatever the backend:
//   all-reduce   2(n−1)/n · bytes (scatter, then gather)
//   all-gather   (n−1) · bytes
//   all-to-all   (n−1)/n · bytes
//   broadcast    bytes from the root only
//   gather to    bytes from all but the root
int64_t BytesSent(Collective op, int64_t bytes, int size, bool root = false);

// One call as seen by one rank. wait_seconds: the part of `seconds` until the slowest rank arrived, almost 0 on that
// rank; the rest is transfer and addition. Absent if a library does not separate waiting from transfer.
struct CollectiveCall {
  MeshAxis axis;
  Collective op;
  int64_t bytes;  // as BytesSent
  double seconds;
  std::optional<double> wait_seconds;
};

// Is notified of each successful call, of a captured one at each replay, on the rank's thread: immediately, or on a
// device once the rank has waited for it. Must be quick and must not allocate. Ranks that are threads may share an
// observer.
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

  // Replaces `inout` on every rank by the sum over all ranks, added in rank order: the same bits on every rank. f32 or
  // bf16.
  virtual void AllReduceSum(Tensor inout, Stream& stream) = 0;
  // all: the `local` tensors of all ranks, in rank order.
  virtual void AllGather(const Tensor& local, Tensor all, Stream& stream) = 0;
  // For each of `batches` equal runs of `send` and `recv`, in one call: sends the i-th of size() equal parts of the run
  // to rank i; recv's run gets the parts sent to this rank, in rank order.
  virtual void AllToAll(const Tensor& send, Tensor recv, int batches, Stream& stream) = 0;
  // Copies `inout` of rank `root` to every rank.
  virtual void Broadcast(int root, Tensor inout, Stream& stream) = 0;
  // Collects every rank's `local` on `root` alone, in rank order. counts: elements per rank, size() numbers, the same
  // on every rank; 0 if a rank sends nothing. all: their sum, on root; ignored elsewhere.
  virtual void GatherTo(int root, absl::Span<const int64_t> counts, const Tensor& local, Tensor all,
                        Stream& stream) = 0;
  // Makes every collective of the group, current or later, fail with Aborted on every rank. Thread-safe.
  virtual void Abort() = 0;

  // Reports every call to `observer`, timed by `clock` or by the device. Owns neither. Call before the group's first
  // collective.
  void Observe(CollectiveObserver& observer, const Clock& clock);
  void set_axis(MeshAxis axis) { axis_ = axis; }  // for observers and traces; the mesh sets it

  // Calls since construction, counted when enqueued or replayed.
  const CollectiveCounts& counts() const { return counts_; }
  // Total time since construction until the slowest rank arrived, for calls that measure it.
  double wait_seconds() const { return wait_seconds_; }

 protected:
  void Count(Collective op, int64_t bytes) {
    ++counts_[static_cast<int>(op)].calls;
    counts_[static_cast<int>(op)].bytes += bytes;
  }
  // Implementations take `Now` when a call begins, when all ranks have arrived, and when it ends, and pass all three to
  // `Measured`.
  absl::Time Now() const { return clock_->Now(); }
  struct Moments {
    absl::Time begin, all_came, end;
  };
  void Measured(Collective op, int64_t bytes, const Moments& at);
  // For implementations that can measure only the duration.
  void Measured(Collective op, int64_t bytes, absl::Duration took);
  bool observed() const { return observer_ != nullptr; }

 private:
  CollectiveCounts counts_{};
  double wait_seconds_ = 0;
  MeshAxis axis_ = MeshAxis::kWorld;
  CollectiveObserver* observer_ = nullptr;
  const Clock* clock_ = &Clock::Steady();
};

// memcpy that accepts null for an empty part. For implementations.
inline void CopyPart(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
// CHECK-fail unless the arguments of a collective match; for implementations.
void CheckAllReduceSum(const Tensor& inout);
void CheckAllGather(const Communicator& group, const Tensor& local, const Tensor& all);
void CheckAllToAll(const Communicator& group, const Tensor& send, const Tensor& recv, int batches);
void CheckBroadcast(const Communicator& group, int root, const Tensor& inout);
void CheckGatherTo(const Communicator& group, int root, absl::Span<const int64_t> counts, const Tensor& local,
                   const Tensor& all);

}  // namespace kinora

#endif  // KINORA_ENGINE_PARALLEL_COMMUNICATOR_H_
