// The CUDA backend's ops for pictures.
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/op_checks.h"
#include "kernels/blend.h"

namespace kinora {
namespace {

kernels::PixelWeights View(const PixelWeights& weights) {
  if (!weights.frames.defined()) return {};
  return {.frames = weights.frames.data<float>(),
          .rows = weights.rows.data<float>(),
          .columns = weights.columns.data<float>()};
}

}  // namespace

void CudaOps::AddTile(const Tensor& tile, const TileBlend& blend, Tensor sums) {
  CheckAddTile(tile, blend, sums);
  if (tile.elements() == 0) return;
  const int64_t line = sums.dim(2) * sums.dim(3);
  stream_->Enqueue("AddTile", tile, [&](cudaStream_t stream) {
    return kernels::LaunchAddTile({.tile = tile.data<float>(),
                                   .sums = sums.data<float>() + blend.row * line + blend.column * sums.dim(3),
                                   .weights = View(blend.weights),
                                   .frames = tile.dim(0),
                                   .height = tile.dim(1),
                                   .line = tile.dim(2) * tile.dim(3),
                                   .sums_frame = sums.dim(1) * line,
                                   .sums_line = line},
                                  stream);
  });
}

void CudaOps::FinishRgb8(const Tensor& sums, const Rgb8Options& options, Tensor rgb8) {
  CheckFinishRgb8(sums, options, rgb8);
  if (sums.elements() == 0) return;
  stream_->Enqueue("FinishRgb8", sums, [&](cudaStream_t stream) {
    return kernels::LaunchFinishRgb8({.sums = sums.data<float>(),
                                      .rgb = options.rgb.defined() ? options.rgb.data<float>() : nullptr,
                                      .rgb8 = rgb8.data<uint8_t>(),
                                      .first_bad = options.first_bad.data<int32_t>(),
                                      .first_frame = options.first_frame,
                                      .weights = View(options.weights),
                                      .frames = sums.dim(0),
                                      .height = sums.dim(1),
                                      .line = sums.dim(2) * sums.dim(3)},
                                     stream);
  });
}

}  // namespace kinora
