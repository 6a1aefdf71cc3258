// The CPU's stream: work runs where it is enqueued, or is kept as closures while capturing.
#ifndef KINORA_ENGINE_TENSOR_CPU_STREAM_H_
#define KINORA_ENGINE_TENSOR_CPU_STREAM_H_

#include <memory>
#include <utility>
#include <vector>

#include "engine/tensor/stream.h"

namespace kinora {

class CpuStream : public Stream {
 public:
  // `work` must capture by value all it uses. Outside a capture it runs at once and nothing is allocated.
  template <typename F>
  void Enqueue(F&& work) {
    if (recording_ != nullptr) {
      recording_->emplace_back(std::forward<F>(work));
    } else if (failure_.ok()) {
      work();
    }
  }

  void Copy(const Tensor& from, Tensor to) override;
  void CopyFromHost(const void* host, Tensor to) override;
  void CopyToHost(const Tensor& from, void* host) override;
  absl::StatusOr<std::unique_ptr<Graph>> Capture(std::function<void()> body) override;
  bool capturing() const override { return recording_ != nullptr; }
  absl::Status Synchronize() override;
  void Fail(absl::Status status) override;

 private:
  friend class CpuGraph;
  using Closures = std::vector<std::function<void()>>;
  Closures* recording_ = nullptr;
  absl::Status failure_;
};

// What CpuStream::Copy enqueues; also for code that holds no stream.
void CopyElements(const Tensor& from, const Tensor& to);

}  // namespace kinora

#endif  // KINORA_ENGINE_TENSOR_CPU_STREAM_H_
