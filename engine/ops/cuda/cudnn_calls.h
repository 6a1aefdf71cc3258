// The calls of cuDNN that compute an op, by shapes alone, so that a dry run can list their plans.
#ifndef KINORA_ENGINE_OPS_CUDA_CUDNN_CALLS_H_
#define KINORA_ENGINE_OPS_CUDA_CUDNN_CALLS_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "engine/ops/attention_runs.h"
#include "engine/ops/cuda/conv_runs.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/op_params.h"
#include "engine/ops/weight.h"

namespace kinora {

struct AttentionExtents {
  int64_t queries, keys, key_end, head_width;
  int kv_heads;
};
AttentionExtents ExtentsOf(const Tensor& q, const Tensor& k, const AttentionOptions& options);

// Returns 0, no window, if the window covers every key before a query.
int64_t WindowOf(const AttentionOptions& options, int64_t queries);

// Whether cuDNN should compute it: bf16, and enough queries for a plan. It can only if the heads are narrow enough
// and the operands aligned.
bool IsForCudnn(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, const Tensor& out);
bool IsNarrow(const Tensor& q, const AttentionOptions& options);  // heads of at most kMaxCudnnHeadWidth
bool AreAligned(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, const Tensor& out);

struct AttentionCall {
  CudnnAttention shape;
  BatchRun run;
};
absl::InlinedVector<AttentionCall, kMaxBatch> CallsOf(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const AttentionOptions& options, const Tensor& out);

// Whether a convolution is a linear layer of every pixel.
bool IsOneTap(const ConvOptions& options);

// Whether cuDNN should compute it: more than one tap, bf16, and channels that suit tensor cores.
bool IsForCudnn(const Tensor& x, const Weight& w, const ConvOptions& options);

// A convolution as cuDNN computes it, in one call or in runs of frames. Padding other than zeros is copied.
struct ConvCalls {
  ConvCalls(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out);
  CudnnConvolution ShapeOf(const FrameRun& run) const;

  bool aligned = false;           // cuDNN can compute it only if the operands are aligned
  bool copies_space = false;      // padding of height and width is copied
  int64_t height = 0, width = 0;  // as cuDNN sees them
  FrameRuns runs;                 // empty: one frame exceeds the limits

 private:
  CudnnConvolution shape_;  // of every run, except for its frames
  int64_t in_channels_ = 0;
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CUDA_CUDNN_CALLS_H_
