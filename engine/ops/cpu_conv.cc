// Convolutions as implicit products: output positions are rows, each kernel tap contributes another run of depth, and padding is a choice
// of source row, so neither a padded nor an unfolded copy of the input exists.
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/ops/cpu_blocks.h"
#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_workspace.h"

namespace kinora {
namespace {

constexpr int64_t kOutside = -1;

// Source index of output position `i` at kernel position `tap` along one axis; kOutside reads zeros.
int64_t Source(const ConvAxis& axis, int64_t extent, int64_t i, int64_t tap) {
  const int64_t at = i * axis.stride - axis.before + tap * axis.dilation;
  if (at >= 0 && at < extent) return at;
  switch (axis.padding) {
    case Padding::kZeros:
      return kOutside;
    case Padding::kReplicate:
      return std::clamp<int64_t>(at, 0, extent - 1);
    case Padding::kReflect:
      return at < 0 ? -at : 2 * (extent - 1) - at;
  }
  return kOutside;
}

int64_t OutputExtent(const ConvAxis& axis, int64_t extent) {
  return (extent + axis.before + axis.after - axis.dilation * (axis.kernel - 1) - 1) / axis.stride + 1;
}

// Channels of a pixel that a zero-padded position reads.
alignas(64) const float kZeroPixel[cpu::kMaxRowWidth] = {};

}  // namespace

struct CpuOps::ConvPlan {
  ConvOptions options;
  int64_t frames, height, width;              // of the input
  int64_t out_frames, out_height, out_width;  // of the output
  int64_t positions() const { return out_frames * out_height * out_width; }
};

void CpuOps::Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) {
  KINORA_CHECK(x.shape().rank() == 4 && out.shape().rank() == 4) << x.shape().ToString();
  KINORA_CHECK(w.taps() == options.time.kernel * options.height.kernel * options.width.kernel && x.dim(3) == w.in())
      << x.shape().ToString() << " by [" << w.out() << ", " << w.taps() << ", " << w.in() << "]";
  KINORA_CHECK(options.accumulate != Accumulate::kGated && w.in() <= cpu::kMaxRowWidth) << w.in();
  for (const auto& [axis, extent] : {std::pair(options.time, x.dim(0)), {options.height, x.dim(1)}, {options.width, x.dim(2)}}) {
    KINORA_CHECK(axis.padding != Padding::kReflect || std::max(axis.before, axis.after) < extent) << extent;
  }
  const ConvPlan plan{.options = options,
                      .frames = x.dim(0),
                      .height = x.dim(1),
                      .width = x.dim(2),
                      .out_frames = OutputExtent(options.time, x.dim(0)),
                      .out_height = OutputExtent(options.height, x.dim(1)),
                      .out_width = OutputExtent(options.width, x.dim(2))};
  KINORA_CHECK(out.shape() == Shape({plan.out_frames, plan.out_height, plan.out_width, w.out()}))
      << x.shape().ToString() << " into " << out.shape().ToString();
  const Weight* weight = &w;
  stream_.Enqueue([this, x, weight, plan, out] { RunConv(x, *weight, plan, out); });
}

void CpuOps::RunConv(const Tensor& x, const Weight& w, const ConvPlan& plan, const Tensor& out) {
  const PackedLayout layout(kernels_, KernelType(w.dtype()), w.out(), w.taps(), w.in());
  const BlockGrid grid(kernels_, plan.positions(), w.out(), layout.depth(), pool_.threads());
  const ConvOptions& o = plan.options;
  const int64_t capacity = kBlockDepthBytes / (layout.type == cpu::kFloat32 ? 4 : 2);
  pool_.Run(grid.tasks(), [&](int64_t task, int thread) {
    const BlockGrid::Block block = grid.At(task);
    Workspace space(workspace_[thread].data());
    const auto point_at_tap = [&](int64_t tap) {
      const int64_t tw = tap % o.width.kernel, th = tap / o.width.kernel % o.height.kernel;
      const int64_t tt = tap / o.width.kernel / o.height.kernel;
      int64_t wi = block.row % plan.out_width, hi = block.row / plan.out_width % plan.out_height;
      int64_t fi = block.row / plan.out_width / plan.out_height;
      int64_t frame = Source(o.time, plan.frames, fi, tt), row = Source(o.height, plan.height, hi, th);
      for (int64_t i = 0; i < block.rows; ++i) {
        const int64_t column = Source(o.width, plan.width, wi, tw);
        const bool outside = frame == kOutside || row == kOutside || column == kOutside;
        space.row_pointers[i] = outside ? static_cast<const void*>(kZeroPixel) : At(x, (frame * plan.height + row) * plan.width + column);
        if (++wi == plan.out_width) {
          wi = 0;
          if (++hi == plan.out_height) {
            hi = 0;
            frame = Source(o.time, plan.frames, ++fi, tt);
          }
          row = Source(o.height, plan.height, hi, th);
        }
      }
    };
    for (int64_t column = block.column; column < block.column_end; column += kBlockColumns) {
      const int64_t columns = std::min(kBlockColumns, block.column_end - column);
      int64_t filled = 0, done = 0;  // depth packed and depth multiplied so far
      const auto multiply = [&] {
        kernels_.multiply(space.packed, capacity, layout.PanelAt(w.storage(), column / kernels_.panel_columns, done),
                          layout.panel_bytes, layout.type, block.rows, filled, columns, space.sums, kBlockColumns, done == 0);
        done += filled;
        filled = 0;
      };
      for (int64_t tap = 0; tap < w.taps(); ++tap) {
        point_at_tap(tap);
        for (int64_t k = 0; k < w.in();) {
          const int64_t length = std::min(w.in() - k, capacity - filled);
          kernels_.pack_rows(space.row_pointers, KernelType(x.dtype()), block.rows, k, length, filled, capacity, layout.type,
                             space.packed);
          k += length;
          filled += (length + 1) / 2 * 2;
          if (filled == capacity) multiply();
        }
      }
      if (filled > 0) multiply();
      kernels_.epilogue({.c = space.sums,
                         .c_stride = kBlockColumns,
                         .bias = w.has_bias() ? w.bias() + column : nullptr,
                         .activation = KernelAct(o.activation),
                         .mode = KernelMode(o.accumulate),
                         .out = {At(out, block.row) + column * DTypeSize(out.dtype()), out.row_stride(), KernelType(out.dtype())},
                         .rows = block.rows,
                         .width = columns});
    }
  });
}

void CpuOps::DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) {
  const SpaceTime s = options.factor;
  const int64_t drop = options.drop_first ? 1 : 0, channels = x.dim(3) / s.product();
  KINORA_CHECK(x.dim(3) % s.product() == 0 && out.dim(0) == x.dim(0) * s.time - drop && out.dim(1) == x.dim(1) * s.height &&
               out.dim(2) == x.dim(2) * s.width)
      << x.shape().ToString() << " to " << out.shape().ToString();
  KINORA_CHECK(options.channels_outer ? out.dim(3) % channels == 0 : out.dim(3) == channels) << out.shape().ToString();
  KINORA_CHECK(x.dtype() == out.dtype() && options.accumulate != Accumulate::kGated);
  stream_.Enqueue([this, x, options, out, s, drop, channels] {
    const int64_t rows = out.dim(0) * out.dim(1) * out.dim(2);
    const bool add = options.accumulate == Accumulate::kAdd;
    const auto load = [](const char* p, DType dtype, int64_t i) {
      return dtype == DType::kF32 ? reinterpret_cast<const float*>(p)[i] : static_cast<float>(reinterpret_cast<const bf16*>(p)[i]);
    };
    ForRows(rows, out.dim(3) * 8, [&](int64_t begin, int64_t end) {
      for (int64_t position = begin; position < end; ++position) {
        const int64_t wo = position % out.dim(2), ho = position / out.dim(2) % out.dim(1);
        const int64_t fo = position / out.dim(2) / out.dim(1) + drop;
        const int64_t source = ((fo / s.time) * x.dim(1) + ho / s.height) * x.dim(2) + wo / s.width;
        const int64_t part = ((fo % s.time) * s.height + ho % s.height) * s.width + wo % s.width;
        const char* in = At(x, source);
        char* o = At(out, position);
        if (!options.channels_outer && !add) {
          std::memcpy(o, in + part * channels * DTypeSize(x.dtype()), channels * DTypeSize(x.dtype()));
          continue;
        }
        for (int64_t c = 0; c < out.dim(3); ++c) {
          const int64_t from = options.channels_outer ? c % channels * s.product() + part : part * channels + c;
          const float value = load(in, x.dtype(), from) + (add ? load(o, out.dtype(), c) : 0.0f);
          if (out.dtype() == DType::kF32) {
            reinterpret_cast<float*>(o)[c] = value;
          } else {
            reinterpret_cast<bf16*>(o)[c] = bf16(value);
          }
        }
      }
    });
  });
}

}  // namespace kinora
