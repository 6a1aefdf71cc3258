#include "tests/gpu_check/workbench.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_status.h"
#include "engine/ops/cuda/cuda_stream.h"

namespace kinora {
namespace {

// Longer tensors repeat the values. The period is prime, so that rows differ.
constexpr int64_t kPeriod = 1048573;

}  // namespace

std::vector<float> Workbench::Draw(int64_t count, float scale) {
  std::vector<float> values(std::min(count, kPeriod));
  uint32_t state = seed_++ * 2654435761u;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = scale * 1.7320508f * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f + 1.0f / 16777216.0f);
  }
  return values;
}

Tensor Workbench::Reserve(DType dtype, const Shape& shape) {
  absl::StatusOr<Buffer> buffer = backend_.Allocate(shape.elements() * DTypeSize(dtype), "a tensor of the check");
  if (!buffer.ok()) {
    if (status_.ok()) status_ = buffer.status();
    return Tensor(dtype, shape, nullptr);
  }
  buffers_.push_back(*std::move(buffer));
  return Tensor(dtype, shape, buffers_.back().data());
}

Tensor Workbench::Random(DType dtype, const Shape& shape, float scale) {
  const std::vector<float> drawn = Draw(shape.elements(), scale);
  Tensor to = Reserve(dtype, shape);
  if (to.raw() == nullptr) return to;
  const int64_t size = DTypeSize(dtype), period = static_cast<int64_t>(drawn.size());
  std::vector<char> bytes(period * size);
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), drawn.data(), bytes.size());
  } else {
    for (int64_t i = 0; i < period; ++i) reinterpret_cast<bf16*>(bytes.data())[i] = bf16(drawn[i]);
  }
  for (int64_t at = 0; at < shape.elements(); at += period) {
    const int64_t n = std::min(period, shape.elements() - at);
    ops().stream().CopyFromHost(bytes.data(), Tensor(dtype, {n}, static_cast<char*>(to.raw()) + at * size));
  }
  return to;
}

Tensor Workbench::Indices(const Shape& shape, int64_t end) {
  std::vector<int32_t> values(shape.elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>((i * 7 + seed_) % end);
  ++seed_;
  Tensor to = Reserve(DType::kI32, shape);
  if (to.raw() != nullptr) ops().stream().CopyFromHost(values.data(), to);
  return to;
}

Tensor Workbench::Floats(const std::vector<float>& values) {
  Tensor to = Reserve(DType::kF32, {static_cast<int64_t>(values.size())});
  if (to.raw() != nullptr) ops().stream().CopyFromHost(values.data(), to);
  return to;
}

Tensor Workbench::Output(DType dtype, const Shape& shape) {
  Tensor to = Reserve(dtype, shape);
  if (to.raw() != nullptr) ops().Fill(1.0f, to);
  return to;
}

Tensor Workbench::Bytes(const Shape& shape) { return Reserve(DType::kU8, shape); }

Weight Workbench::RandomWeight(DType dtype, int64_t out, int64_t taps, int64_t in, bool bias) {
  const std::vector<float> drawn = Draw(out * taps * in, 1.0f / std::sqrt(static_cast<float>(taps * in)));
  std::vector<float> biases = Draw(out, 0.5f);
  const Tensor bias_view(DType::kF32, {out}, biases.data());
  const auto read = [&](int64_t begin, int64_t end, void* to) {
    auto* value = static_cast<float*>(to);
    for (int64_t i = begin * taps * in; i < end * taps * in; ++i) {
      *value++ = drawn[i % static_cast<int64_t>(drawn.size())];
    }
    return absl::OkStatus();
  };
  const WeightRows rows{.out = out, .taps = taps, .in = in, .read = read};
  absl::StatusOr<std::vector<Weight>> weights = ops().PrepareWeights(rows, bias ? &bias_view : nullptr, dtype);
  if (weights.ok()) return weights->front();
  if (status_.ok()) status_ = weights.status();
  return Weight(dtype, out, taps, in, bias, nullptr);
}

absl::StatusOr<std::vector<float>> Workbench::Read(const Tensor& tensor) {
  std::vector<char> bytes(tensor.bytes());
  ops().stream().CopyToHost(tensor, bytes.data());
  KINORA_RETURN_IF_ERROR(ops().stream().Synchronize());
  std::vector<float> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype() == DType::kU8) values[i] = static_cast<float>(reinterpret_cast<const uint8_t*>(bytes.data())[i]);
    if (tensor.dtype() == DType::kF32) values[i] = reinterpret_cast<const float*>(bytes.data())[i];
    if (tensor.dtype() == DType::kBF16) values[i] = static_cast<float>(reinterpret_cast<const bf16*>(bytes.data())[i]);
    if (tensor.dtype() == DType::kI32) {
      values[i] = static_cast<float>(reinterpret_cast<const int32_t*>(bytes.data())[i]);
    }
  }
  return values;
}

Stopwatch::Stopwatch(Ops& ops) : ops_(ops), stream_(static_cast<CudaStream&>(ops.stream()).handle()) {
  cudaEventCreateWithFlags(&begin_, cudaEventDefault);
  cudaEventCreateWithFlags(&end_, cudaEventDefault);
}

Stopwatch::~Stopwatch() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

absl::StatusOr<double> Stopwatch::Median(int runs, const std::function<void()>& enqueue) {
  constexpr int kWarmUp = 1;
  std::vector<float> milliseconds;
  for (int run = 0; run < runs + kWarmUp; ++run) {
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin_, stream_), "an event"));
    enqueue();
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end_, stream_), "an event"));
    KINORA_RETURN_IF_ERROR(ops_.stream().Synchronize());
    float taken = 0;
    KINORA_RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&taken, begin_, end_), "an event"));
    if (run >= kWarmUp) milliseconds.push_back(taken);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds[milliseconds.size() / 2] * 1e-3;
}

absl::StatusOr<double> Stopwatch::MedianOfGraph(int runs, int repeats, const std::function<void()>& enqueue) {
  enqueue();  // outside a capture, where libraries may choose their algorithm
  KINORA_RETURN_IF_ERROR(ops_.stream().Synchronize());
  KINORA_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, ops_.stream().Capture([&] {
    for (int i = 0; i < repeats; ++i) enqueue();
  }));
  KINORA_ASSIGN_OR_RETURN(const double seconds, Median(runs, [&] { graph->Replay(); }));
  KINORA_RETURN_IF_ERROR(ops_.stream().Synchronize());
  return seconds / repeats;
}

}  // namespace kinora
