// Convolutions. One tap over every pixel is a linear layer. bf16 convolutions with channel counts that suit tensor
// cores go to cuDNN, which supports only padding with zeros: frames that other padding touches, and only those, are
// copied with their padding into the scratch memory. All other convolutions, and all of float32, gather the pixels
// under the taps as rows of a product.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/cuda/cuda_weight.h"
#include "engine/ops/cuda/cudnn_calls.h"
#include "engine/ops/op_checks.h"
#include "kernels/im2col.h"

namespace kinora {
namespace {

constexpr int64_t kVector = 8;  // elements that cuDNN and the kernels process at a time

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

kernels::Edge KernelEdge(Padding padding) {
  switch (padding) {
    case Padding::kZeros:
      break;
    case Padding::kReflect:
      return kernels::Edge::kReflect;
    case Padding::kReplicate:
      return kernels::Edge::kReplicate;
  }
  return kernels::Edge::kZeros;
}

kernels::Im2colAxis KernelAxis(const ConvAxis& axis, int64_t extent, int64_t outputs) {
  return {.extent = extent,
          .outputs = outputs,
          .taps = axis.kernel,
          .stride = axis.stride,
          .dilation = axis.dilation,
          .before = axis.before,
          .edge = KernelEdge(axis.padding)};
}

// The axis when padding is copied: one output for each position of the padded extent.
kernels::Im2colAxis PaddedAxis(const ConvAxis& axis, int64_t extent) {
  return {.extent = extent,
          .outputs = extent + axis.before + axis.after,
          .before = axis.before,
          .edge = KernelEdge(axis.padding)};
}

}  // namespace

// A convolution that cuDNN computes, in one call or in runs of frames.
class CudaOps::CudnnConv {
 public:
  CudnnConv(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out)
      : x_(x), w_(w), options_(options), out_(out), calls_(x, w, options, out) {}

  // Returns why cuDNN cannot compute it, or nothing if it can.
  absl::StatusOr<std::optional<Fallback>> Plan(CudnnPlans& plans) {
    if (!calls_.aligned) return FallbackOf(Fallback::Reason::kAlignment, "");
    if (calls_.runs.empty()) return FallbackOf(Fallback::Reason::kSize, "");
    for (const FrameRun& run : calls_.runs) {
      const absl::StatusOr<CudnnPlans::Plan> plan = plans.For(calls_.ShapeOf(run));
      if (absl::IsUnimplemented(plan.status())) {
        return FallbackOf(Fallback::Reason::kRefused, std::string(plan.status().message()));
      }
      KINORA_RETURN_IF_ERROR(plan.status());
      plans_.push_back(*plan);
    }
    return std::nullopt;
  }

  absl::Status Run(const Buffer& scratch_memory, void* workspace, CudaStream& on) const {
    const cudaStream_t stream = on.handle();
    const CudaWeight& stored = CudaWeight::Of(w_);
    for (size_t i = 0; i < calls_.runs.size(); ++i) {
      const FrameRun& run = calls_.runs[i];
      Scratch scratch(scratch_memory);
      Tensor x = x_;
      if (run.copied) {
        x = scratch.Take(x_.dtype(), {run.frames, calls_.height, calls_.width, x_.width()});
        KINORA_RETURN_IF_ERROR(CudaStatus(CopyPadded(run, x, stream), "frames with their padding"));
      } else {
        x = x_.Rows(run.from, run.from + run.frames);
      }
      void* const operands[] = {x.raw(), stored.matrix.data(), out_.Rows(run.begin, run.end).raw(),
                                const_cast<void*>(stored.BiasFor(out_.dtype()))};
      on.Keep(plans_[i]);
      KINORA_RETURN_IF_ERROR(plans_[i]->Run(absl::MakeConstSpan(operands, w_.has_bias() ? 4 : 3), workspace, stream));
    }
    return absl::OkStatus();
  }

 private:
  Fallback FallbackOf(Fallback::Reason reason, std::string why) const {
    return {.op = Fallback::Op::kConvolution,
            .reason = reason,
            .shape = absl::StrCat(x_.shape().ToString(), " to ", out_.shape().ToString(), ", ", w_.taps(), " taps"),
            .values = out_.rows() * w_.taps() * w_.in(),
            .why = std::move(why)};
  }

  cudaError_t CopyPadded(const FrameRun& run, const Tensor& to, cudaStream_t stream) const {
    const ConvAxis none;
    return kernels::LaunchIm2col({.x = View(x_),
                                  .columns = View(to),
                                  .channels = x_.width(),
                                  .time = {.extent = x_.dim(0),
                                           .outputs = run.frames,
                                           .before = -run.from,
                                           .edge = KernelEdge(options_.time.padding)},
                                  .height = PaddedAxis(calls_.copies_space ? options_.height : none, x_.dim(1)),
                                  .width = PaddedAxis(calls_.copies_space ? options_.width : none, x_.dim(2)),
                                  .count = to.rows()},
                                 stream);
  }

  const Tensor& x_;
  const Weight& w_;
  const ConvOptions& options_;
  const Tensor& out_;
  const ConvCalls calls_;
  absl::InlinedVector<CudnnPlans::Plan, 8> plans_;
};

void CudaOps::Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) {
  CheckConv(x, w, options, out);
  if (out.elements() == 0) return;
  stream_->Enqueue("Conv", x, [&](cudaStream_t) { return RunConv(x, w, options, out); });
}

absl::Status CudaOps::RunConv(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out) {
  if (IsOneTap(options)) {
    return RunMatmul(x.As2D(), w, {.activation = options.activation, .accumulate = options.accumulate}, out.As2D());
  }
  if (IsForCudnn(x, w, options)) {
    CudnnConv conv(x, w, options, out);
    KINORA_ASSIGN_OR_RETURN(const std::optional<Fallback> fallback, conv.Plan(*cudnn_));
    if (!fallback.has_value()) return conv.Run(scratch_, product_workspace_.data(), *stream_);
    KINORA_RETURN_IF_ERROR(fallbacks_->Take(*fallback));
  }
  return ConvByProducts(x, w, options, out);
}

absl::Status CudaOps::MultiplyColumns(const Weight& w, const MatmulOptions& options, FillColumns fill,
                                      const Tensor& out) {
  const Weight flat(w.dtype(), w.out(), 1, w.taps() * w.in(), w.has_bias(), w.storage());  // the same rows
  const int64_t stride = RoundUp(flat.in(), kVector), positions = out.rows();
  const int64_t row_bytes =
      stride * DTypeSize(w.dtype()) + w.out() * DTypeSize(DType::kF32);  // bytes per row of a product
  const int64_t most = std::max<int64_t>(1, (kScratchBytes - kScratchPadding) / row_bytes);
  for (int64_t first = 0; first < positions; first += most) {
    const int64_t count = std::min(most, positions - first);
    Scratch scratch(scratch_);
    const Tensor columns = scratch.Take(w.dtype(), {count, stride}).Columns(0, flat.in());
    KINORA_RETURN_IF_ERROR(CudaStatus(fill(first, columns), "the pixels of a convolution"));
    KINORA_RETURN_IF_ERROR(Multiply(columns, flat, options, scratch, out.Rows(first, first + count)));
  }
  return absl::OkStatus();
}

absl::Status CudaOps::ConvByProducts(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out) {
  kernels::Im2col im2col{.x = View(x),
                         .channels = x.width(),
                         .time = KernelAxis(options.time, x.dim(0), out.dim(0)),
                         .height = KernelAxis(options.height, x.dim(1), out.dim(1)),
                         .width = KernelAxis(options.width, x.dim(2), out.dim(2))};
  const auto fill = [&](int64_t first, const Tensor& columns) {
    im2col.columns = View(columns);
    im2col.first = first;
    im2col.count = columns.rows();
    return kernels::LaunchIm2col(im2col, stream_->handle());
  };
  return MultiplyColumns(w, {.activation = options.activation, .accumulate = options.accumulate}, fill, out.As2D());
}

}  // namespace kinora
