// An ordered queue of work on a device, and recorded sequences of its work.
#ifndef KINORA_ENGINE_TENSOR_STREAM_H_
#define KINORA_ENGINE_TENSOR_STREAM_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tensor/arena.h"

namespace kinora {

// A recorded sequence of work. Replay enqueues it again with the same addresses and their current contents.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void Replay() = 0;
};

// After the first failure, enqueued work does nothing until Synchronize has reported the failure. Not thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  // Copies elements, converting between f32 and bf16 if the dtypes differ; shapes must have equal element counts and
  // widths.
  virtual void Copy(const Tensor& from, Tensor to) = 0;
  // Copy the bytes of contiguous tensors from and to host memory. Apart from loading weights, these are the only
  // transfers between the host and ops. Fail with FailedPrecondition in a capture, since a graph may not access host
  // memory. `host` has been read when CopyFromHost returns; it has been written when Synchronize returns.
  virtual void CopyFromHost(const void* host, Tensor to) = 0;
  virtual void CopyToHost(const Tensor& from, void* host) = 0;
  // Like CopyFromHost, but reads `host`, which must be from Backend::AllocateHost, when the work runs.
  virtual void CopyFromPinned(const void* host, Tensor to) { CopyFromHost(host, to); }
  // Returns memory for the host's copy of a contiguous tensor: from `host` or, where device memory is host memory, the
  // tensor itself, which makes the copies above no-ops. The host may access it until the next op that reads or writes
  // `device`.
  virtual Tensor HostSide(const Tensor& device, ArenaScope& host) const = 0;
  // Runs `body` and records the work that it enqueues on this stream instead of running it. Fails with
  // FailedPrecondition if body synchronizes or captures. Arena memory that body allocates must stay reserved while the
  // graph is in use.
  // After a failure of earlier work it records nothing and returns that failure, which Synchronize still reports.
  virtual absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) = 0;
  virtual bool capturing() const = 0;
  // False if captures are switched off; Capture then still works.
  virtual bool can_capture() const { return true; }
  // Whether enqueued work does nothing because earlier work has failed.
  virtual bool failed() const = 0;
  // Waits for all enqueued work; returns and clears the first failure.
  virtual absl::Status Synchronize() = 0;
  // Whether work may run after the call that enqueued it has returned. Such a device is idle if the host waits for each
  // piece of work before it enqueues the next.
  virtual bool asynchronous() const { return false; }
  // Mark returns the position in the queue after all work enqueued so far. WaitFor returns when the work before that
  // position is done, even if later work is pending, and returns the first failure without clearing it. It accepts only
  // the last kMarks marks. Neither may be called in a capture.
  static constexpr int kMarks = 4;
  virtual int64_t Mark() { return 0; }
  virtual absl::Status WaitFor(int64_t mark) = 0;
  // Begins the work of one turn of a loop, which the next Mark ends. resumes: the last mark ended the previous turn, so
  // the device's time between the two is idle time; it is counted once the turn has been waited for.
  virtual void BeginTurn(bool /*resumes*/) {}
  // Returns how long, over all turns since construction, the device had no work between turns.
  virtual double idle_seconds() const { return 0; }
  // Fork makes `branch`, another stream of the device, a branch of this one: work enqueued on it from now on runs after
  // all work enqueued here so far, and belongs to this stream's capture. Join ends the branch: work enqueued here from
  // then on runs after all work on `branch`, whose failure becomes this stream's. Both do nothing where work runs as it
  // is enqueued.
  virtual void Fork(Stream& /*branch*/) {}
  virtual void Join(Stream& /*branch*/) {}
  // Makes `status` the stream's failure unless it already has one.
  virtual void Fail(absl::Status status) = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_STREAM_H_
