// Tensors with drawn contents on a backend, and the time that work takes on it.
#ifndef KINORA_TESTS_GPU_CHECK_WORKBENCH_H_
#define KINORA_TESTS_GPU_CHECK_WORKBENCH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ops/backend.h"

namespace kinora {

// Two workbenches that are asked for the same in the same order hold the same, whatever their backends. Contents are
// never zeros, which a device multiplies faster. On a dry backend nothing has contents.
class Workbench {
 public:
  explicit Workbench(Backend& backend) : backend_(backend) {}

  Backend& backend() { return backend_; }
  Ops& ops() { return backend_.ops(); }

  // Uniform in ±scale·√3, so that `scale` is the deviation.
  Tensor Random(DType dtype, const Shape& shape, float scale = 1.0f);
  // i32 below `end`.
  Tensor Indices(const Shape& shape, int64_t end);
  Tensor Floats(const std::vector<float>& values);
  // Ones, in which what is not written shows.
  Tensor Output(DType dtype, const Shape& shape);
  Tensor Bytes(const Shape& shape);  // u8, undefined
  // Scaled by the depth of its sums.
  Weight RandomWeight(DType dtype, int64_t out, int64_t taps, int64_t in, bool bias);

  // Any dtype of numbers; waits.
  absl::StatusOr<std::vector<float>> Read(const Tensor& tensor);
  // The first thing that failed here: an allocation or a weight.
  const absl::Status& status() const { return status_; }

 private:
  Tensor Reserve(DType dtype, const Shape& shape);
  std::vector<float> Draw(int64_t count, float scale);

  Backend& backend_;
  uint32_t seed_ = 1;
  absl::Status status_;
  std::vector<Buffer> buffers_;
};

// Seconds on the device, by its events.
class Stopwatch {
 public:
  explicit Stopwatch(Ops& ops);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  cudaStream_t stream() const { return stream_; }

  // The median of `runs`, after one that does not count.
  absl::StatusOr<double> Median(int runs, const std::function<void()>& enqueue);
  // The same for what is captured `repeats` times into one graph; per repeat.
  absl::StatusOr<double> MedianOfGraph(int runs, int repeats, const std::function<void()>& enqueue);

 private:
  Ops& ops_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_WORKBENCH_H_
