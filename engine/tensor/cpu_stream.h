// The CPU's stream: work runs where it is enqueued, or is kept as closures while capturing.
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
  // `work` must capture by value all it uses. Outside a capture it runs at once and nothing is allocated. In a trace it
  // bears the name of the function that enqueued it, or `from`, and `done`.
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
  // The tensor as work on this stream must address it. Device memory is host memory here, so it is the same; a stream
  // whose tensors carry other addresses translates them. For those who enqueue closures: ranks that are threads.
  virtual Tensor Reach(const Tensor& device) const { return device; }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) override;
  bool capturing() const override { return recording_ != nullptr; }
  absl::Status Synchronize() override;
  absl::Status WaitFor(int64_t mark) override;
  void Fail(absl::Status status) override;

 private:
  friend class CpuGraph;
  struct Closure {
    std::function<void()> work;
    const char* name;
    TraceArgs traced;  // where it was captured
  };
  using Closures = std::vector<Closure>;
  Closures* recording_ = nullptr;
  absl::Status failure_;
};

// For those who enqueue closures; CHECK-fails for another kind of stream.
CpuStream& OnCpu(Stream& stream);

// What CpuStream::Copy enqueues; also for code that holds no stream.
void CopyElements(const Tensor& from, const Tensor& to);

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_CPU_STREAM_H_
