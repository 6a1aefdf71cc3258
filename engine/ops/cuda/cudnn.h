// The seam behind which cuDNN stands. Two implementations, of which a build links one: cudnn_frontend.cc, NVIDIA's
// library, where nvcc compiles the kernels; tests/simt/cudnn, definitions on the host, where they run on the simulated
// device. The definitions refuse what the library refuses (tests/simt/cudnn/refusals.h).
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_H_

#include <cuda_runtime.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ops/pixel_params.h"

namespace kinora {

// Where the elements of a [batch, heads, rows, width] operand lie: elements from one to the next, multiples of 8; those
// of a row follow each other.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0;
  friend auto operator<=>(const HeadStrides&, const HeadStrides&) = default;  // NOLINT: a 0, no pointer
};

// out = softmax(scale · q kᵀ + bias) v, all bf16 but the bias; sums in float32. Operands: q, k, v, out, and bias if
// there is one.
struct CudnnAttention {
  int64_t batch = 0, heads = 0, kv_heads = 0;  // query head h reads key head h / (heads / kv_heads)
  int64_t queries = 0, keys = 0;               // of a sequence: all that count, at least one
  int64_t head_width = 0;                      // at most kMaxHeadWidth
  HeadStrides q{}, k{}, v{}, out{};
  float scale = 1.0f;
  bool causal = false;      // key position <= query position, both from 0
  int64_t window = 0;       // with causal: query position - key position < window; 0: no window
  bool bias = false;        // [queries, keys] f32, for every batch and head
  int64_t bias_stride = 0;  // elements from one of its rows to the next
  friend auto operator<=>(const CudnnAttention&, const CudnnAttention&) = default;  // NOLINT: a 0, no pointer
};

// out (= or +=) activation(conv(x, filter) + bias), x and filter of one type, sums in float32. Operands: x,
// filter, out, and bias if there is one.
//   x, out: [frames, height, width, channels], positions `x_stride`, `out_stride` elements apart
//   filter: [out_channels, time.kernel, height.kernel, width.kernel, in_channels], the output channels `filter_stride`
//   elements apart (CudaWeight::stride); bias: [out_channels] f32
struct CudnnConvolution {
  DType dtype = DType::kBF16;                 // of x and filter; or kF32
  DType out_dtype = DType::kBF16;             // or kF32
  int64_t frames = 0, rows = 0, columns = 0;  // of x
  int64_t in_channels = 0, out_channels = 0;
  int64_t x_stride = 0, filter_stride = 0, out_stride = 0;
  ConvAxis time{}, height{}, width{};  // padding is zeros
  bool bias = false;
  Activation activation = Activation::kNone;  // or kSilu
  bool accumulate = false;
  friend auto operator<=>(const CudnnConvolution&, const CudnnConvolution&) = default;  // NOLINT: a 0, no pointer
};

// How one shape is computed.
class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  // At most kProductWorkspaceBytes.
  virtual int64_t workspace_bytes() const = 0;
  // Enqueues it, also into a capture. Operands are device addresses in the order that the shape names, aligned to 16
  // bytes; so is the workspace. Neither allocates nor waits.
  virtual absl::Status Run(absl::Span<void* const> operands, void* workspace, cudaStream_t stream) const = 0;
};

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  // Half a second or more each, once per shape: CudnnPlans keeps them. Unimplemented, with the library's reason: it has
  // no engine for this shape on this device.
  virtual absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnAttention& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnConvolution& shape) = 0;
};

// For the current device. FailedPrecondition: no library, or too old a one; the message names it and what to do.
absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnn();

// Plans by shape, each built when its shape first occurs, also inside a capture, and kept. One thread at a time.
class CudnnPlans {
 public:
  explicit CudnnPlans(std::unique_ptr<Cudnn> cudnn) : cudnn_(std::move(cudnn)) {}
  // Valid as long as this is. Unimplemented, now and whenever asked again: the caller has another way.
  absl::StatusOr<const CudnnPlan*> For(const CudnnAttention& shape) { return Find(shape, attentions_); }
  absl::StatusOr<const CudnnPlan*> For(const CudnnConvolution& shape) { return Find(shape, convolutions_); }

 private:
  template <typename Shape>
  using Map = std::map<Shape, absl::StatusOr<std::unique_ptr<CudnnPlan>>>;
  template <typename Shape>
  absl::StatusOr<const CudnnPlan*> Find(const Shape& shape, Map<Shape>& plans) {
    auto at = plans.find(shape);
    if (at == plans.end()) at = plans.emplace(shape, cudnn_->Build(shape)).first;
    if (!at->second.ok()) return at->second.status();
    return at->second->get();
  }

  const std::unique_ptr<Cudnn> cudnn_;
  Map<CudnnAttention> attentions_;
  Map<CudnnConvolution> convolutions_;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_H_
