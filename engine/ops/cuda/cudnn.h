// The interface to cuDNN. A build links one of two implementations: cudnn_frontend.cc (NVIDIA's library) if nvcc
// compiles the kernels, or tests/simt/cudnn (definitions on the host) if the kernels run on the simulated device. The
// latter rejects what the library rejects (tests/simt/cudnn/refusals.h).
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_H_

#include <cuda_runtime.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ops/pixel_params.h"

namespace kinora {

inline constexpr int64_t kMaxCudnnHeadWidth = 256;  // of attention; cuDNN 9 has no engine for wider heads

// The strides of a [batch, heads, rows, width] operand in elements, multiples of 8. The elements of a row are
// contiguous.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0;
  friend auto operator<=>(const HeadStrides&, const HeadStrides&) = default;  // NOLINT: a 0, no pointer
};

// out = softmax(scale · q kᵀ + bias) v, all bf16 except the bias; sums are float32. Operands: q, k, v, out, and bias
// if there is one.
struct CudnnAttention {
  int64_t batch = 0, heads = 0, kv_heads = 0;  // query head h reads key head h / (heads / kv_heads)
  int64_t queries = 0, keys = 0;               // per sequence; all keys count; at least one
  int64_t head_width = 0;                      // at most kMaxCudnnHeadWidth
  HeadStrides q{}, k{}, v{}, out{};
  float scale = 1.0f;
  bool causal = false;      // key position <= query position, both from 0
  int64_t window = 0;       // with causal: query position - key position < window; 0: no window
  bool bias = false;        // [queries, keys] f32, for every batch and head
  int64_t bias_stride = 0;  // elements from one row of the bias to the next
  friend auto operator<=>(const CudnnAttention&, const CudnnAttention&) = default;  // NOLINT: a 0, no pointer
};

// out (= or +=) activation(conv(x, filter) + bias), x and filter of one type, sums in float32. If out is bf16 and there
// is no activation, the previous out is added before the bias. Operands: x, filter, out, and bias if there is one.
//   x, out: [frames, height, width, channels], positions `x_stride`, `out_stride` elements apart
//   filter: [out_channels, time.kernel, height.kernel, width.kernel, in_channels], the output channels `filter_stride`
//   elements apart (CudaWeight::stride); bias: [out_channels] of out_dtype
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

// A plan for one shape. Destroying it unloads its kernels, so the work that Run enqueued must be done, and graphs that
// contain it destroyed (CudaStream::Keep).
class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  // At most kProductWorkspaceBytes.
  virtual int64_t workspace_bytes() const = 0;
  // Host and device memory that the plan takes besides: an estimate, since cuDNN does not tell.
  virtual int64_t memory_bytes() const = 0;
  // The library's name for the chosen engine and its settings, for reports: "eng9_k24=7".
  virtual std::string engine() const = 0;
  // Enqueues the plan, also in a capture. Operands are device addresses in the order that the shape lists; they and the
  // workspace are aligned to 16 bytes. Does not allocate or wait.
  virtual absl::Status Run(absl::Span<void* const> operands, void* workspace, cudaStream_t stream) const = 0;
};

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  // Thread-safe. Builds a plan, which takes up to two seconds; CudnnPlans does so once per shape. Fails with
  // Unimplemented and the library's reason if it has no engine for the shape on this device.
  virtual absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnAttention& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<CudnnPlan>> Build(const CudnnConvolution& shape) = 0;
};

// Opens cuDNN for the current device. Fails with FailedPrecondition if the library is missing or too old; the message
// names it and says what to do.
absl::StatusOr<std::unique_ptr<Cudnn>> OpenCudnn();

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_H_
