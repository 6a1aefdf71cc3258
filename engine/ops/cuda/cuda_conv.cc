// Convolutions. One tap over every pixel is a linear layer. bf16 convolutions with channel counts that suit tensor
// cores go to cuDNN, which supports only padding with zeros: frames that other padding touches, and only those, are
// copied with their padding into the scratch memory. All other convolutions, and all of float32, gather the pixels
// under the taps as rows of a product.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "engine/base/status_macros.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/cuda/cuda_weight.h"
#include "engine/ops/op_checks.h"
#include "kernels/im2col.h"

namespace kinora {
namespace {

constexpr int64_t kVector = 8;             // elements that cuDNN and the kernels process at a time
constexpr int64_t kScratchPadding = 1024;  // between the pieces

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

bool IsTrivial(const ConvAxis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.after == 0;
}

// Returns the distance from the first to the last frame that one output reads.
int64_t Span(const ConvAxis& axis) { return int64_t{axis.dilation} * (axis.kernel - 1); }

bool PadsOtherwise(const ConvAxis& axis) {
  return axis.padding != Padding::kZeros && (axis.before > 0 || axis.after > 0);
}

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

bool Aligned(const Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.raw()) % 16 == 0 && t.row_stride() % kVector == 0;
}

bool SuitsCudnn(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out) {
  if (options.activation == Activation::kGeluTanh) return false;
  return x.dtype() == DType::kBF16 && w.dtype() == DType::kBF16 && w.in() % kVector == 0 && w.out() % kVector == 0 &&
         Aligned(x) && Aligned(out);
}

// Frames [begin, end) of the result, computed from frames [from, from + frames) of x, which may begin before x and end
// after it. copied: the frames are copied with their padding; otherwise they are read from x, without padding in time.
struct FrameRun {
  int64_t begin, end;
  int64_t from, frames;
  bool copied;
};
using FrameRuns = absl::InlinedVector<FrameRun, 8>;

// Adds [begin, end) in equal runs of at most `most` results.
void AddCopied(int64_t begin, int64_t end, int64_t most, const ConvAxis& time, FrameRuns& runs) {
  if (begin >= end) return;
  const int64_t count = (end - begin + most - 1) / most, size = (end - begin + count - 1) / count;
  for (int64_t at = begin; at < end; at += size) {
    const int64_t to = std::min(end, at + size);
    runs.push_back({at, to, at * time.stride - time.before, (to - at - 1) * time.stride + Span(time) + 1, true});
  }
}

// Divides the frames of a convolution whose padding in time or space is not zeros into runs. Frames that touch no such
// padding are read in place. Returns no runs if not even one frame fits the scratch memory.
FrameRuns RunsOf(const ConvAxis& time, int64_t frames, int64_t outputs, bool space, int64_t frame_bytes) {
  FrameRuns runs;
  const int64_t fit = (kScratchBytes - kScratchPadding) / frame_bytes - Span(time) - 1;
  if (fit < 0) return runs;
  const int64_t most = fit / time.stride + 1;
  if (space) {
    AddCopied(0, outputs, most, time, runs);
    return runs;
  }
  // front: the first result that reads no frame before x; back: the first one after it that reads a frame past x.
  const int64_t front = std::min<int64_t>(outputs, (time.before + time.stride - 1) / time.stride);
  const int64_t last = frames - 1 - Span(time) + time.before;
  const int64_t back = std::clamp<int64_t>(last < 0 ? 0 : last / time.stride + 1, front, outputs);
  AddCopied(0, front, most, time, runs);
  if (front < back) {
    runs.push_back(
        {front, back, front * time.stride - time.before, (back - front - 1) * time.stride + Span(time) + 1, false});
  }
  AddCopied(back, outputs, most, time, runs);
  return runs;
}

}  // namespace

// A convolution that cuDNN computes, in one call or in runs of frames.
class CudaOps::CudnnConv {
 public:
  CudnnConv(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out)
      : x_(x),
        w_(w),
        options_(options),
        out_(out),
        space_(PadsOtherwise(options.height) || PadsOtherwise(options.width)) {
    if (space_) {
      const auto padded = [](int64_t extent, const ConvAxis& axis) { return extent + axis.before + axis.after; };
      height_ = padded(height_, options.height);
      width_ = padded(width_, options.width);
    }
    if (!space_ && !PadsOtherwise(options.time)) {
      runs_ = {{0, out.dim(0), 0, x.dim(0), false}};
      keep_time_ = true;
    } else {
      runs_ = RunsOf(options.time, x.dim(0), out.dim(0), space_, height_ * width_ * x.width() * DTypeSize(x.dtype()));
    }
  }

  // Returns false if cuDNN has no engine for it, or no frame fits the scratch memory.
  absl::StatusOr<bool> Plan(CudnnPlans& plans) {
    for (const FrameRun& run : runs_) {
      const absl::StatusOr<const CudnnPlan*> plan = plans.For(ShapeOf(run));
      if (absl::IsUnimplemented(plan.status())) return false;
      KINORA_RETURN_IF_ERROR(plan.status());
      plans_.push_back(*plan);
    }
    return !runs_.empty();
  }

  absl::Status Run(const Buffer& scratch_memory, void* workspace, cudaStream_t stream) const {
    const CudaWeight& stored = CudaWeight::Of(w_);
    for (size_t i = 0; i < runs_.size(); ++i) {
      const FrameRun& run = runs_[i];
      Scratch scratch(scratch_memory);
      Tensor x = x_;
      if (run.copied) {
        x = scratch.Take(x_.dtype(), {run.frames, height_, width_, x_.width()});
        KINORA_RETURN_IF_ERROR(CudaStatus(CopyPadded(run, x, stream), "frames with their padding"));
      } else if (!keep_time_) {
        x = x_.Rows(run.from, run.from + run.frames);
      }
      void* const operands[] = {x.raw(), stored.matrix.data(), out_.Rows(run.begin, run.end).raw(), stored.bias.data()};
      KINORA_RETURN_IF_ERROR(plans_[i]->Run(absl::MakeConstSpan(operands, w_.has_bias() ? 4 : 3), workspace, stream));
    }
    return absl::OkStatus();
  }

 private:
  CudnnConvolution ShapeOf(const FrameRun& run) const {
    CudnnConvolution shape{.dtype = x_.dtype(),
                           .out_dtype = out_.dtype(),
                           .frames = run.frames,
                           .rows = height_,
                           .columns = width_,
                           .in_channels = w_.in(),
                           .out_channels = w_.out(),
                           .x_stride = run.copied ? x_.width() : x_.row_stride(),
                           .filter_stride = CudaWeight::Of(w_).stride,
                           .out_stride = out_.row_stride(),
                           .time = options_.time,
                           .height = options_.height,
                           .width = options_.width,
                           .bias = w_.has_bias(),
                           .activation = options_.activation,
                           .accumulate = options_.accumulate == Accumulate::kAdd};
    const auto unpad = [](ConvAxis& axis) { axis.before = axis.after = 0; };
    if (!keep_time_) unpad(shape.time);
    if (space_) {
      unpad(shape.height);
      unpad(shape.width);
    }
    for (ConvAxis* axis : {&shape.time, &shape.height, &shape.width}) axis->padding = Padding::kZeros;
    return shape;
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
                                  .height = PaddedAxis(space_ ? options_.height : none, x_.dim(1)),
                                  .width = PaddedAxis(space_ ? options_.width : none, x_.dim(2)),
                                  .count = to.rows()},
                                 stream);
  }

  const Tensor& x_;
  const Weight& w_;
  const ConvOptions& options_;
  const Tensor& out_;
  const bool space_;                                // padding of height and width is copied
  bool keep_time_ = false;                          // cuDNN pads time
  int64_t height_ = x_.dim(1), width_ = x_.dim(2);  // as cuDNN sees them
  FrameRuns runs_;
  absl::InlinedVector<const CudnnPlan*, 8> plans_;
};

void CudaOps::Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) {
  CheckConv(x, w, options, out);
  if (out.elements() == 0) return;
  stream_->Enqueue("Conv", x, [&](cudaStream_t) { return RunConv(x, w, options, out); });
}

absl::Status CudaOps::RunConv(const Tensor& x, const Weight& w, const ConvOptions& options, const Tensor& out) {
  if (IsTrivial(options.time) && IsTrivial(options.height) && IsTrivial(options.width)) {
    return RunMatmul(x.As2D(), w, {.activation = options.activation, .accumulate = options.accumulate}, out.As2D());
  }
  if (SuitsCudnn(x, w, options, out)) {
    CudnnConv conv(x, w, options, out);
    KINORA_ASSIGN_OR_RETURN(const bool planned, conv.Plan(*cudnn_));
    if (planned) return conv.Run(scratch_, product_workspace_.data(), stream_->handle());
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
