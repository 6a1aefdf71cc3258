// The CUDA backend's ops that turn pixels into blocks of pixels, and blocks into pixels.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/cuda_views.h"
#include "engine/ops/op_checks.h"
#include "kernels/blur.h"
#include "kernels/space_to_depth.h"
#include "kernels/upscale.h"

namespace kinora {
namespace {

kernels::Upscale ScaleOf(const Tensor& x, const SpaceTime& factor) {
  return {.frames = x.dim(0),
          .height = x.dim(1),
          .width = x.dim(2),
          .time_factor = factor.time,
          .height_factor = factor.height,
          .width_factor = factor.width};
}

}  // namespace

void CudaOps::DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) {
  CheckDepthToSpace(x, options, out);
  KINORA_CHECK(x.dtype() == out.dtype()) << DTypeName(x.dtype()) << " to " << DTypeName(out.dtype());
  if (out.elements() == 0) return;
  stream_->Enqueue("DepthToSpace", x, [&](cudaStream_t stream) {
    return kernels::LaunchDepthToSpace({.scale = ScaleOf(x, options.factor),
                                        .x = View(x),
                                        .out = View(out),
                                        .channels = x.width() / options.factor.product(),
                                        .out_channels = out.width(),
                                        .drop_first = options.drop_first,
                                        .channels_outer = options.channels_outer,
                                        .add = options.accumulate == Accumulate::kAdd},
                                       stream);
  });
}

void CudaOps::SpaceToDepth(const Tensor& x, const SpaceToDepthOptions& options, Tensor out) {
  CheckSpaceToDepth(x, options, out);
  if (out.elements() == 0) return;
  stream_->Enqueue("SpaceToDepth", x, [&](cudaStream_t handle) {
    return kernels::LaunchSpaceToDepth({.x = View(x),
                                        .out = View(out),
                                        .frames = x.dim(0),
                                        .height = x.dim(1),
                                        .width = x.dim(2),
                                        .channels = x.width(),
                                        .time_factor = options.factor.time,
                                        .height_factor = options.factor.height,
                                        .width_factor = options.factor.width,
                                        .mean_of = options.mean_of,
                                        .repeat_first = options.repeat_first,
                                        .width_before_height = options.width_before_height,
                                        .add = options.accumulate == Accumulate::kAdd},
                                       handle);
  });
}

void CudaOps::RepeatNearest(const Tensor& x, const SpaceTime& factor, Tensor out) {
  CheckRepeatNearest(x, factor, out);
  if (out.elements() == 0) return;
  stream_->Enqueue("RepeatNearest", x, [&](cudaStream_t stream) {
    return kernels::LaunchRepeatNearest({.scale = ScaleOf(x, factor),
                                         .x = x.raw(),
                                         .out = out.raw(),
                                         .channels = x.width(),
                                         .type = KernelType(x.dtype())},
                                        stream);
  });
}

void CudaOps::Blur(const Tensor& x, const Tensor& filter, int stride, Tensor out) {
  CheckBlur(x, filter, stride, out);
  if (out.elements() == 0) return;
  stream_->Enqueue("Blur", x, [&](cudaStream_t handle) {
    return kernels::LaunchBlur({.x = View(x),
                                .out = View(out),
                                .frames = x.dim(0),
                                .height = x.dim(1),
                                .width = x.dim(2),
                                .channels = x.width(),
                                .filter = filter.data<float>(),
                                .taps = static_cast<int>(filter.dim(0)),
                                .stride = stride},
                               handle);
  });
}

}  // namespace kinora
