#include "engine/ops/cuda/cudnn_calls.h"

#include <algorithm>

#include "engine/ops/cuda/cuda_memory.h"
#include "engine/ops/cuda_traits.h"
#include "engine/ops/op_checks.h"

namespace kinora {
namespace {

// Building a plan takes 0.7 s. The text encoder's attention is causal, and every prompt has another length: below this
// many queries, the products of one prompt take less time than its plan.
constexpr int64_t kLeastCausalQueries = 2048;

constexpr int64_t kVector = 8;  // elements that cuDNN and the kernels process at a time

bool IsAligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.raw()) % 16 == 0; }

bool IsTrivial(const ConvAxis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.after == 0;
}

bool PadsOtherwise(const ConvAxis& axis) {
  return axis.padding != Padding::kZeros && (axis.before > 0 || axis.after > 0);
}

// The shape of one call of cuDNN for a run of batches.
CudnnAttention ShapeOf(const BatchRun& run, const AttentionExtents& e, const Tensor& q, const Tensor& k,
                       const Tensor& v, const AttentionOptions& o, const Tensor& out) {
  const bool stacked = run.stacked();
  const int64_t queries = stacked ? run.count * e.queries : e.queries;
  const auto strides = [&](const Tensor& t, int64_t batch_rows) {
    return HeadStrides{.batch = batch_rows * t.row_stride(), .head = e.head_width, .row = t.row_stride()};
  };
  const int64_t kv_rows = std::max(1, run.step) * e.keys;
  return {.batch = stacked ? 1 : run.count,
          .heads = o.heads,
          .kv_heads = e.kv_heads,
          .queries = queries,
          .keys = e.key_end,
          .head_width = e.head_width,
          .q = strides(q, queries),
          .k = strides(k, kv_rows),
          .v = strides(v, kv_rows),
          .out = strides(out, queries),
          .scale = o.scale,
          .causal = o.causal,
          .window = WindowOf(o, e.queries),
          .bias = o.bias.defined(),
          .bias_stride = o.bias.defined() ? o.bias.row_stride() : 0};
}

}  // namespace

AttentionExtents ExtentsOf(const Tensor& q, const Tensor& k, const AttentionOptions& o) {
  return {.queries = q.rows() / o.batch,
          .keys = k.rows() / o.kv_batches,
          .key_end = KeysThatCount(k, o),
          .head_width = q.width() / o.heads,
          .kv_heads = o.kv_heads > 0 ? o.kv_heads : o.heads};
}

int64_t WindowOf(const AttentionOptions& o, int64_t queries) { return o.causal && o.window < queries ? o.window : 0; }

bool IsForCudnn(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o, const Tensor& out) {
  for (const Tensor* t : {&q, &k, &v, &out}) {
    if (t->dtype() != DType::kBF16) return false;
  }
  if (!o.causal) return true;
  const AttentionExtents e = ExtentsOf(q, k, o);
  const int64_t window = WindowOf(o, e.queries);
  const bool all_see = window == 0 || e.queries < e.key_end + window;  // the last query still sees the last key
  return e.queries >= kLeastCausalQueries && all_see;
}

bool IsNarrow(const Tensor& q, const AttentionOptions& o) { return q.width() / o.heads <= kMaxCudnnHeadWidth; }

bool AreAligned(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o, const Tensor& out) {
  for (const Tensor* t : {&q, &k, &v, &out, &o.bias}) {
    if (!IsAligned(*t)) return false;
  }
  return q.row_stride() % kVector == 0 && k.row_stride() % kVector == 0 && v.row_stride() % kVector == 0 &&
         out.row_stride() % kVector == 0;
}

absl::InlinedVector<AttentionCall, kMaxBatch> CallsOf(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const AttentionOptions& options, const Tensor& out) {
  const AttentionExtents extents = ExtentsOf(q, k, options);
  absl::InlinedVector<AttentionCall, kMaxBatch> calls;
  for (const BatchRun& run : BatchRuns(options)) {
    calls.push_back({ShapeOf(run, extents, q, k, v, options, out), run});
  }
  return calls;
}

bool IsOneTap(const ConvOptions& options) {
  return IsTrivial(options.time) && IsTrivial(options.height) && IsTrivial(options.width);
}

bool IsForCudnn(const Tensor& x, const Weight& w, const ConvOptions& options) {
  if (IsOneTap(options) || options.activation == Activation::kGeluTanh) return false;
  return x.dtype() == DType::kBF16 && w.dtype() == DType::kBF16 && w.in() % kVector == 0 && w.out() % kVector == 0;
}

ConvCalls::ConvCalls(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out)
    : aligned(IsAligned(x) && IsAligned(out) && x.row_stride() % kVector == 0 && out.row_stride() % kVector == 0),
      copies_space(PadsOtherwise(options.height) || PadsOtherwise(options.width)),
      height(x.dim(1)),
      width(x.dim(2)),
      shape_{.dtype = x.dtype(),
             .out_dtype = out.dtype(),
             .in_channels = w.in(),
             .out_channels = w.out(),
             .x_stride = x.row_stride(),
             .filter_stride = CudaWeightLayout().Bytes(w.dtype(), 1, w.taps(), w.in()) / DTypeSize(w.dtype()),
             .out_stride = out.row_stride(),
             .time = options.time,
             .height = options.height,
             .width = options.width,
             .bias = w.has_bias(),
             .activation = options.activation,
             .accumulate = options.accumulate == Accumulate::kAdd},
      in_channels_(x.width()) {
  if (copies_space) {
    const auto pad = [](ConvAxis& axis, int64_t& extent) {
      extent += axis.before + axis.after;
      axis.before = axis.after = 0;
    };
    pad(shape_.height, height);
    pad(shape_.width, width);
  }
  shape_.rows = height;
  shape_.columns = width;
  for (ConvAxis* axis : {&shape_.time, &shape_.height, &shape_.width}) axis->padding = Padding::kZeros;
  const CopiedFrames copied = copies_space                  ? CopiedFrames::kAll
                              : PadsOtherwise(options.time) ? CopiedFrames::kAtTheEnds
                                                            : CopiedFrames::kNone;
  const int64_t pixels = height * width, out_pixels = out.dim(1) * out.dim(2);
  runs = RunsOf(options.time, x.dim(0), out.dim(0), copied,
                {.x = kMostConvElements / (pixels * x.row_stride()),
                 .out = kMostConvElements / (out_pixels * out.row_stride()),
                 .copied = (kScratchBytes - kScratchPadding) / (pixels * in_channels_ * DTypeSize(x.dtype()))});
}

CudnnConvolution ConvCalls::ShapeOf(const FrameRun& run) const {
  CudnnConvolution shape = shape_;
  shape.frames = run.frames;
  shape.time.before = run.before;
  shape.time.after = run.after;
  if (run.copied) shape.x_stride = in_channels_;
  return shape;
}

}  // namespace kinora
