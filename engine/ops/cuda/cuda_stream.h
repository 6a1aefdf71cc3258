// A CUDA stream as the engine's Stream: work is enqueued and runs later; captures become CUDA graphs.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDA_STREAM_H_
#define KINORA_ENGINE_OPS_CUDA_CUDA_STREAM_H_

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "engine/ops/cuda/cuda_status.h"
#include "engine/tensor/buffer.h"
#include "engine/tensor/stream.h"

namespace kinora {

// Ends the work of streams from outside, for example when the ranks' communicators are aborted. Enqueued work still
// runs to its end, but its results are invalid. Thread-safe.
class Interruption {
 public:
  void Set(absl::Status why);  // why: not OK; the first call wins
  absl::Status status() const;
  bool set() const { return set_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mu_;
  absl::Status why_;
  std::atomic<bool> set_ = false;
};

// Notified whenever a wait for a stream succeeds, on the thread that waited: the work that was waited for is done.
class WaitListener {
 public:
  virtual ~WaitListener() = default;
  virtual void OnReached() = 0;
};

class CudaStream : public Stream {
 public:
  // Creates a stream on the current device. Fails with ResourceExhausted if there is no pinned memory for copies from
  // the host (kStagingBytes).
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create();
  ~CudaStream() override;

  cudaStream_t handle() const { return stream_; }
  // Calls enqueue(handle()), which returns a cudaError_t or a Status, unless the stream has failed. The message of a
  // failure contains `op` and the shape of `x`.
  template <typename F>
  void Enqueue(const char* op, const Tensor& x, F&& enqueue) {
    if (!failure_.ok()) return;
    Note(op, x, enqueue(stream_));
    if (synchronizes_ && !capturing_) NoteWork(op, x);
  }

  // SetCaptures(false) makes can_capture() false. SetSynchronizes(true) waits behind each op, so that a failure of its
  // work names the op and its shape, too.
  void SetCaptures(bool captures) { can_capture_ = captures; }
  void SetSynchronizes(bool synchronizes) { synchronizes_ = synchronizes; }

  // Makes replays and waits on this stream fail with the status of `interruption` once it is set. `interruption` is
  // ignored once it no longer exists.
  void Heed(const std::shared_ptr<const Interruption>& interruption);
  // Notifies `listener` from now on, while it exists.
  void Tell(const std::shared_ptr<WaitListener>& listener);
  // Calls `each_run` now or, in a capture, whenever the graph is replayed. CHECK-fails on a branch, whose work the
  // graph's stream does not count.
  template <typename F>
  void AtEachRun(F&& each_run) {
    KINORA_CHECK(!forked_) << "counted work, such as a collective, on a branch";
    if (capturing_) {
      at_each_run_.push_back(std::forward<F>(each_run));
    } else {
      each_run();
    }
  }

  // Keeps `object`, which work enqueued here needs, until a wait shows that all work enqueued so far is done. In a
  // capture: while the graph exists, and then until its last replay is done.
  void Keep(std::shared_ptr<const void> object);

  void Copy(const Tensor& from, Tensor to) override;
  void CopyFromHost(const void* host, Tensor to) override;
  void CopyFromPinned(const void* host, Tensor to) override;
  void CopyToHost(const Tensor& from, void* host) override;
  Tensor HostSide(const Tensor& device, ArenaScope& host) const override;
  absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) override;
  bool capturing() const override { return capturing_; }
  bool can_capture() const override { return can_capture_; }
  bool failed() const override { return !failure_.ok(); }
  absl::Status Synchronize() override;
  bool asynchronous() const override { return true; }
  int64_t Mark() override;
  absl::Status WaitFor(int64_t mark) override;
  void BeginTurn(bool resumes) override;
  double idle_seconds() const override { return idle_seconds_; }
  void Fork(Stream& branch) override;
  void Join(Stream& branch) override;
  void Fail(absl::Status status) override;

  static constexpr int64_t kStagingBytes = int64_t{8} << 20;

 private:
  friend class CudaGraph;
  // Pinned memory that CopyFromHost passes through, used as a ring of two halves.
  struct Staging {
    void* memory = nullptr;
    std::array<cudaEvent_t, 2> left{};  // recorded after the last copy from each half
    int half = 0;
    int64_t used = 0;  // bytes of the half
  };

  CudaStream() = default;
  void Note(const char* op, const Tensor& x, cudaError_t error);
  void Note(const char* op, const Tensor& x, const absl::Status& status);
  void NoteWork(const char* op, const Tensor& x);  // waits for it
  // Makes work enqueued here from now on run after all work enqueued on `other`.
  cudaError_t ComeAfter(const CudaStream& other);
  void FailIfInterrupted();
  void TellReached();
  void CountIdleBefore(int64_t mark);
  void ReleaseUpTo(int64_t mark);
  cudaError_t CopyStaged(const char* host, char* device, int64_t bytes);

  cudaStream_t stream_ = nullptr;
  Staging staging_;
  std::array<cudaEvent_t, kMarks> marks_{};  // mark n is marks_[n % kMarks]
  int64_t next_mark_ = 0;
  std::array<cudaEvent_t, kMarks> begins_{};  // begin of the turn that each mark ends
  std::array<bool, kMarks> resumes_{};        // as passed to BeginTurn; false once counted
  double idle_seconds_ = 0;
  std::array<cudaEvent_t, 1> passed_{};  // recorded here for another stream's ComeAfter
  bool can_capture_ = true, synchronizes_ = false;
  bool capturing_ = false;
  bool forked_ = false;                                  // a branch, between Fork and Join
  std::vector<std::function<void()>> at_each_run_;       // of the current capture
  std::map<std::shared_ptr<const void>, int64_t> kept_;  // what work needs, and the mark behind the last that does
  std::set<std::shared_ptr<const void>> captured_;       // what the current capture needs
  std::vector<std::weak_ptr<const Interruption>> interruptions_;
  std::vector<std::weak_ptr<WaitListener>> listeners_;
  absl::Status failure_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDA_STREAM_H_
