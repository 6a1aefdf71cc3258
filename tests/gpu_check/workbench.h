// Tensors with random contents on a backend, and a stopwatch for work on it.
#ifndef KINORA_TESTS_GPU_CHECK_WORKBENCH_H_
#define KINORA_TESTS_GPU_CHECK_WORKBENCH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ops/backend.h"

namespace kinora {

// Two workbenches that receive the same calls in the same order produce the same contents, whatever their backends.
// Contents are never zero, since devices multiply zeros faster. Tensors on a dry backend have no contents.
class Workbench {
 public:
  explicit Workbench(Backend& backend) : backend_(backend) {}

  Backend& backend() { return backend_; }
  Ops& ops() { return backend_.ops(); }

  // Uniform in ±scale·√3, so `scale` is the standard deviation.
  Tensor Random(DType dtype, const Shape& shape, float scale = 1.0f);
  // i32 values in [0, end).
  Tensor Indices(const Shape& shape, int64_t end);
  Tensor Floats(const std::vector<float>& values);
  // Filled with ones, so that unwritten elements are detected.
  Tensor Output(DType dtype, const Shape& shape);
  Tensor Bytes(const Shape& shape);  // u8, undefined
  // Scaled by the number of terms in its sums.
  Weight RandomWeight(DType dtype, int64_t out, int64_t taps, int64_t in, bool bias);

  // Waits for the tensor and returns its values, of any numeric dtype, as f32.
  absl::StatusOr<std::vector<float>> Read(const Tensor& tensor);
  // The first error of an allocation or weight.
  const absl::Status& status() const { return status_; }

 private:
  Tensor Reserve(DType dtype, const Shape& shape);
  std::vector<float> Draw(int64_t count, float scale);

  Backend& backend_;
  uint32_t seed_ = 1;
  absl::Status status_;
  std::vector<Buffer> buffers_;
};

// Measures seconds on the device with its events.
class Stopwatch {
 public:
  explicit Stopwatch(Ops& ops);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  cudaStream_t stream() const { return stream_; }

  // Returns the median of `runs` runs, after one that is not counted.
  absl::StatusOr<double> Median(int runs, const std::function<void()>& enqueue);
  // Captures the work `repeats` times into one graph and returns the median time per repeat.
  absl::StatusOr<double> MedianOfGraph(int runs, int repeats, const std::function<void()>& enqueue);

 private:
  Ops& ops_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace kinora

#endif  // KINORA_TESTS_GPU_CHECK_WORKBENCH_H_
