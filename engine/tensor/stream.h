// One ordered queue of work on a device, and recorded pieces of it.
#ifndef KINORA_ENGINE_TENSOR_STREAM_H_
#define KINORA_ENGINE_TENSOR_STREAM_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tensor/arena.h"

namespace kinora {

// A recorded sequence of work. Replay enqueues it again: same addresses, whatever they hold now.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void Replay() = 0;
};

// The first failure sticks: work enqueued after it does nothing until Synchronize has reported it. Not thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  // Copies elements, converting between f32 and bf16 if the dtypes differ; shapes must have equal element counts and
  // widths.
  virtual void Copy(const Tensor& from, Tensor to) = 0;
  // Host memory in and out, of contiguous tensors' bytes: the only ways, beside loading weights, between what the host
  // touches and what ops do. FailedPrecondition inside a capture: a graph may not read or write the host. `host` is
  // read before CopyFromHost returns; it is written once Synchronize has returned.
  virtual void CopyFromHost(const void* host, Tensor to) = 0;
  virtual void CopyToHost(const Tensor& from, void* host) = 0;
  // Where the host may keep its side of a contiguous tensor, for these copies: memory of `host`, or the tensor itself
  // where device memory is host memory, and the copies between the two are nothing. The host may touch it until the
  // next op that reads or writes `device`.
  virtual Tensor HostSide(const Tensor& device, ArenaScope& host) const = 0;
  // Runs `body`, which enqueues work on this stream, and keeps that work instead of doing it. FailedPrecondition if
  // body synchronizes or captures; what it allocated from arenas must stay reserved as long as the graph is replayed.
  virtual absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) = 0;
  virtual bool capturing() const = 0;
  // Waits for all enqueued work; returns and clears the first failure.
  virtual absl::Status Synchronize() = 0;
  // True: work may run after the call that enqueued it has returned. A host that waits for each piece before it
  // enqueues the next leaves such a device idle in between.
  virtual bool asynchronous() const { return false; }
  // The place in the queue behind all that is enqueued now. WaitFor returns when the work before it is done, whatever
  // is enqueued behind, with the first failure, which stays. Of the marks the last kMarks can be waited for. Not in a
  // capture.
  static constexpr int kMarks = 4;
  virtual int64_t Mark() { return 0; }
  virtual absl::Status WaitFor(int64_t mark) = 0;
  // The work of one turn of a loop follows, up to the next Mark. resumes: the last mark ended the turn before it, so
  // what passes on the device between the two is idleness, counted once the turn has been waited for.
  virtual void BeginTurn(bool /*resumes*/) {}
  // Of all turns since construction: how long the device had run out of work between them.
  virtual double idle_seconds() const { return 0; }
  // Makes `branch`, another stream of the device, one of this stream's: what is enqueued on it from now on comes after
  // all that is on this one, and belongs to this one's capture. Join ends that: what is enqueued here from then on
  // comes after all that is on `branch`, whose failure becomes this stream's. Nothing to do where work runs as it is
  // enqueued.
  virtual void Fork(Stream& /*branch*/) {}
  virtual void Join(Stream& /*branch*/) {}
  // Makes `status` the stream's failure unless it has one already.
  virtual void Fail(absl::Status status) = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_STREAM_H_
