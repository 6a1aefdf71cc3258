// The CPU's stream: runs work when it is enqueued, or records it as closures during a capture.
#ifndef KINORA_ENGINE_TENSOR_CPU_STREAM_H_
#define KINORA_ENGINE_TENSOR_CPU_STREAM_H_

#include <memory>
#include <utility>
#include <vector>

#include "engine/base/trace.h"
#include "engine/tensor/stream.h"

namespace kinora {

class CpuStream : public Stream {
 public:
  // Runs `work` at once, without allocating, or records it during a capture. `work` must capture by value everything it
  // uses. In a trace it is labelled with `from`, by default the calling function, and `done`.
  template <typename F>
  void Enqueue(F&& work, const char* from = __builtin_FUNCTION(),  // clang 14 has no std::source_location
               const OpWork& done = {}) {
    if (recording_ != nullptr) {
      recording_->push_back({std::forward<F>(work), from, TraceHere(done)});
    } else if (failure_.ok()) {
      const TraceSpan span("op", from, &done);
      work();
    }
  }

  void Copy(const Tensor& from, Tensor to) override;
  void CopyFromHost(const void* host, Tensor to) override;
  void CopyToHost(const Tensor& from, void* host) override;
  Tensor HostSide(const Tensor& device, ArenaScope& host) const override;
  // Returns the tensor with the address that work on this stream must use. Device memory is host memory here, so the
  // tensor is unchanged; a stream with other addresses translates them. For code that enqueues closures, such as
  // communicators.
  virtual Tensor Reach(const Tensor& device) const { return device; }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) override;
  bool capturing() const override { return recording_ != nullptr; }
  bool failed() const override { return !failure_.ok(); }
  absl::Status Synchronize() override;
  absl::Status WaitFor(int64_t mark) override;
  void Fail(absl::Status status) override;

 private:
  friend class CpuGraph;
  struct Closure {
    std::function<void()> work;
    const char* name;
    TraceArgs traced;  // its op and place, at the time of the capture
  };
  using Closures = std::vector<Closure>;
  Closures* recording_ = nullptr;
  absl::Status failure_;
};

// Returns `stream` as a CpuStream, for code that enqueues closures. CHECK-fails for any other kind of stream.
CpuStream& OnCpu(Stream& stream);

// The copy that CpuStream::Copy enqueues; also for code without a stream.
void CopyElements(const Tensor& from, const Tensor& to);

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_CPU_STREAM_H_
