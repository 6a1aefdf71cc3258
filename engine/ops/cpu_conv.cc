// Convolutions as implicit products: output positions are rows, each kernel tap contributes another run of depth, and
// padding is a choice of source row, so neither a padded nor an unfolded copy of the input exists.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/ops/cpu_blocks.h"
#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_weight.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_checks.h"
#include "engine/ops/op_work.h"

namespace kinora {
namespace {

constexpr int64_t kOutside = -1;

// Returns the source index of output position `i` at kernel position `tap` along one axis; kOutside means zeros.
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

// The pixel that a zero-padded position reads.
alignas(64) const float kZeroPixel[cpu::kMaxRowWidth] = {};

}  // namespace

struct CpuOps::ConvPlan {
  ConvOptions options;
  int64_t frames, height, width;              // of the input
  int64_t out_frames, out_height, out_width;  // of the output
  int64_t positions() const { return out_frames * out_height * out_width; }
};

// The line of input pixels that one output line (counted over all frames) reads at a tap's time and height.
class CpuOps::ConvLine {
 public:
  ConvLine(const ConvPlan& plan, const Tensor& x, int64_t line, int64_t tt, int64_t th) : plan_(&plan), x_(&x) {
    const int64_t frame = Source(plan.options.time, plan.frames, line / plan.out_height, tt);
    const int64_t row = Source(plan.options.height, plan.height, line % plan.out_height, th);
    begin_ = frame == kOutside || row == kOutside ? kOutside : (frame * plan.height + row) * plan.width;
  }
  // Returns the pixel that output column `column` reads at a tap.
  const void* At(int64_t column, int64_t tap) const {
    const int64_t source = Source(plan_->options.width, plan_->width, column, tap);
    return begin_ == kOutside || source == kOutside ? static_cast<const void*>(kZeroPixel)
                                                    : kinora::At(*x_, begin_ + source);
  }

 private:
  const ConvPlan* plan_;
  const Tensor* x_;
  int64_t begin_;
};

void CpuOps::Conv(const Tensor& x, const Weight& w, const ConvOptions& options, Tensor out) {
  KINORA_CHECK(x.shape().rank() == 4 && out.shape().rank() == 4) << x.shape().ToString();
  KINORA_CHECK(w.taps() == options.time.kernel * options.height.kernel * options.width.kernel && x.dim(3) == w.in())
      << x.shape().ToString() << " by [" << w.out() << ", " << w.taps() << ", " << w.in() << "]";
  KINORA_CHECK(options.accumulate != Accumulate::kGated && w.in() <= cpu::kMaxRowWidth) << w.in();
  for (const auto& [axis, extent] :
       {std::pair(options.time, x.dim(0)), {options.height, x.dim(1)}, {options.width, x.dim(2)}}) {
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
  stream_.Enqueue([this, x, weight, plan, out] { RunConv(x, *weight, plan, out); }, "Conv", WorkOfConv(w, out));
}

// Output positions times all kernel taps, in blocks of positions. Multiply leaves the sums of a block and of columns
// [column, column + columns), at most kBlockColumns, in the workspace. There are two implementations; the shape alone
// decides which is used.

// For any convolution: each tap packs its own pixels.
class CpuOps::ConvByTaps {
 public:
  ConvByTaps(const cpu::Kernels& kernels, const ConvPlan& plan, const Tensor& x, const Weight& w, int threads)
      : kernels_(kernels),
        plan_(plan),
        x_(x),
        w_(w),
        layout_(kernels, KernelType(w.dtype()), w.out(), w.taps(), w.in()),
        capacity_(kBlockDepthBytes / (layout_.type == cpu::kFloat32 ? 4 : 2)),
        grid_(kernels, layout_.type, plan.positions(), w.out(), layout_.depth(), threads) {}

  int64_t tasks() const { return grid_.tasks(); }
  BlockGrid::Block At(int64_t task) const { return grid_.At(task); }

  void Multiply(const BlockGrid::Block& block, int64_t column, int64_t columns, const Workspace& space) const {
    int64_t filled = 0, done = 0;  // depth packed and depth multiplied so far
    const auto multiply = [&] {
      kernels_.multiply(space.packed, capacity_,
                        layout_.PanelAt(CpuWeight::Of(w_).panels.data(), column / kernels_.panel_columns, done),
                        layout_.panel_bytes, layout_.type, block.rows, filled, columns, space.sums, kBlockColumns,
                        done == 0);
      done += filled;
      filled = 0;
    };
    for (int64_t tap = 0; tap < w_.taps(); ++tap) {
      PointAt(tap, block, space.row_pointers);
      for (int64_t k = 0; k < w_.in();) {
        const int64_t length = std::min(w_.in() - k, capacity_ - filled);
        kernels_.pack_rows(space.row_pointers, KernelType(x_.dtype()), block.rows, k, length, filled, capacity_,
                           layout_.type, space.packed);
        k += length;
        filled += (length + 1) / 2 * 2;
        if (filled == capacity_) multiply();
      }
    }
    if (filled > 0) multiply();
  }

 private:
  // Sets `pixels` to the pixels that a tap reads.
  void PointAt(int64_t tap, const BlockGrid::Block& block, const void** pixels) const {
    const int kernel_width = plan_.options.width.kernel, kernel_height = plan_.options.height.kernel;
    const int64_t tw = tap % kernel_width, th = tap / kernel_width % kernel_height,
                  tt = tap / kernel_width / kernel_height;
    int64_t wi = block.row % plan_.out_width, line = block.row / plan_.out_width;
    ConvLine source(plan_, x_, line, tt, th);
    for (int64_t i = 0; i < block.rows; ++i) {
      pixels[i] = source.At(wi, tw);
      if (++wi < plan_.out_width) continue;
      wi = 0;
      source = ConvLine(plan_, x_, ++line, tt, th);
    }
  }

  const cpu::Kernels& kernels_;
  const ConvPlan& plan_;
  const Tensor& x_;
  const Weight& w_;
  const PackedLayout layout_;
  const int64_t capacity_;  // of packed depth
  const BlockGrid grid_;
};

// For stride and dilation 1 along the width: a tile of neighbouring pixels is packed once for all taps along the width,
// each of which starts at the next lane. A tile does not cross lines.
class CpuOps::ConvBySharedTaps {
 public:
  // Whether sharing is possible and pays: it does not if lines are too short to fill a tile.
  static bool Pays(const cpu::TileShape& tile, const ConvPlan& plan) {
    const ConvAxis& width = plan.options.width;
    return plan.out_width >= tile.rows / 2 && width.kernel > 1 && width.stride == 1 && width.dilation == 1 &&
           width.kernel <= tile.lanes / 2;
  }

  ConvBySharedTaps(const cpu::Kernels& kernels, const ConvPlan& plan, const Tensor& x, const Weight& w, int threads)
      : kernels_(kernels),
        plan_(plan),
        x_(x),
        w_(w),
        layout_(kernels, KernelType(w.dtype()), w.out(), w.taps(), w.in()),
        tile_(kernels.tiles[layout_.type]),
        element_(layout_.type == cpu::kFloat32 ? 4 : 2),
        depth_step_(std::max<int64_t>(2, tile_.row_units * 4 / element_)),
        capacity_(kBlockDepthBytes / element_),
        tile_bytes_(tile_.lanes * kBlockDepthBytes) {
    const int64_t widest = std::min<int64_t>(tile_.rows, tile_.lanes - plan.options.width.kernel + 1);
    tiles_a_line_ = (plan.out_width + widest - 1) / widest;
    tile_width_ = (plan.out_width + tiles_a_line_ - 1) / tiles_a_line_;
    tile_width_ = std::min(widest, (tile_width_ + tile_.row_step - 1) / tile_.row_step * tile_.row_step);
    tiles_ = tiles_a_line_ * plan.out_frames * plan.out_height;
    const int64_t fit = std::min(kBlockRows / tile_width_, kPackedBytes / tile_bytes_);
    int64_t blocks = (tiles_ + fit - 1) / fit;
    if (blocks < 8 * threads) blocks = (blocks + threads - 1) / threads * threads;  // the same number for every thread
    tiles_a_block_ = (tiles_ + blocks - 1) / blocks;
  }

  int64_t tasks() const { return (tiles_ + tiles_a_block_ - 1) / tiles_a_block_; }
  BlockGrid::Block At(int64_t task) const {
    const int64_t begin = PositionOf(task * tiles_a_block_);
    return {begin, PositionOf(std::min(tiles_, (task + 1) * tiles_a_block_)) - begin, 0, w_.out()};
  }

  void Multiply(const BlockGrid::Block& block, int64_t column, int64_t columns, const Workspace& space) const {
    const Tiles tiles = TilesOf(block);
    cpu::DepthRun runs[kMaxRuns];
    cpu::TapsArgs args{.tiles = space.packed,
                       .tile_bytes = tile_bytes_,
                       .tile_count = tiles.count,
                       .tile_rows = tiles.rows,
                       .runs = runs,
                       .panels = layout_.PanelAt(CpuWeight::Of(w_).panels.data(), column / kernels_.panel_columns, 0),
                       .panel_stride = layout_.panel_bytes,
                       .type = layout_.type,
                       .columns = columns,
                       .c = space.sums,
                       .c_stride = kBlockColumns,
                       .first = true};
    const int64_t kernel = plan_.options.width.kernel;
    int64_t filled = 0;  // depth packed
    const auto multiply = [&] {
      kernels_.multiply_taps(args);
      args.first = false;
      args.run_count = filled = 0;
    };
    for (int64_t line_tap = 0; line_tap < w_.taps() / kernel; ++line_tap) {
      for (int64_t k = 0, length; k < w_.in(); k += length) {
        length = std::min(w_.in() - k, capacity_ - filled);
        for (int64_t t = 0; t < tiles.count; ++t) {
          PackTile(tiles.positions[t], tiles.rows[t], line_tap, k, length,
                   space.packed + t * tile_bytes_ + filled * element_ * tile_.lanes);
        }
        for (int64_t tap = 0; tap < kernel; ++tap) {
          runs[args.run_count++] = {Units(filled) * tile_.lanes + tap * tile_.row_units,
                                    (line_tap * kernel + tap) * Units(layout_.padded_in) + Units(k), Units(length)};
        }
        filled += (length + depth_step_ - 1) / depth_step_ * depth_step_;
        if (filled == capacity_ || args.run_count + kernel > kMaxRuns) multiply();
      }
    }
    if (args.run_count > 0) multiply();
  }

 private:
  static constexpr int64_t kMaxTiles = kBlockRows;
  static constexpr int64_t kMaxRuns = 96;
  struct Tiles {
    int64_t positions[kMaxTiles], rows[kMaxTiles], count = 0;
  };

  Tiles TilesOf(const BlockGrid::Block& block) const {
    Tiles tiles;
    for (int64_t at = block.row; at < block.row + block.rows; at += tiles.rows[tiles.count++]) {
      tiles.positions[tiles.count] = at;
      tiles.rows[tiles.count] = std::min(tile_width_, plan_.out_width - at % plan_.out_width);
    }
    return tiles;
  }
  // Units of 32 bits.
  int64_t Units(int64_t elements) const { return (elements + 1) / 2 * 2 * element_ / 4; }

  int64_t PositionOf(int64_t tile) const {
    return tile / tiles_a_line_ * plan_.out_width + tile % tiles_a_line_ * tile_width_;
  }

  // Packs the pixels that all taps along the width read for a tile of `rows` results from `position` on.
  void PackTile(int64_t position, int64_t rows, int64_t line_tap, int64_t k, int64_t length, char* out) const {
    const void* pixels[cpu::kMaxLanes];
    const int64_t kernel = plan_.options.width.kernel, begin = position % plan_.out_width;
    const int64_t tt = line_tap / plan_.options.height.kernel, th = line_tap % plan_.options.height.kernel;
    const ConvLine line(plan_, x_, position / plan_.out_width, tt, th);
    for (int64_t i = 0; i < rows + kernel - 1; ++i) {
      const int64_t tap = std::min(i, kernel - 1);  // so that output i - tap exists
      pixels[i] = line.At(begin + i - tap, tap);
    }
    kernels_.pack_lanes(pixels, rows + kernel - 1, KernelType(x_.dtype()), k, length, layout_.type, out);
  }

  const cpu::Kernels& kernels_;
  const ConvPlan& plan_;
  const Tensor& x_;
  const Weight& w_;
  const PackedLayout layout_;
  const cpu::TileShape tile_;
  const int64_t element_;     // bytes
  const int64_t depth_step_;  // elements; runs of depth begin at multiples of it
  const int64_t capacity_;    // elements of packed depth
  const int64_t tile_bytes_;
  int64_t tiles_a_line_, tile_width_, tiles_, tiles_a_block_;
};

template <typename Blocks>
void CpuOps::RunConvBlocks(const Blocks& blocks, const Weight& w, const ConvOptions& options, const Tensor& out) {
  pool_.Run(blocks.tasks(), [&](int64_t task, int thread) {
    const BlockGrid::Block block = blocks.At(task);
    const Workspace space(workspace_[thread].data());
    for (int64_t column = block.column; column < block.column_end; column += kBlockColumns) {
      const int64_t columns = std::min(kBlockColumns, block.column_end - column);
      blocks.Multiply(block, column, columns, space);
      kernels_.epilogue(
          {.c = space.sums,
           .c_stride = kBlockColumns,
           .bias = CpuWeight::Of(w).bias_at(column),
           .activation = KernelAct(options.activation),
           .mode = KernelMode(options.accumulate),
           .out = {At(out, block.row) + column * DTypeSize(out.dtype()), out.row_stride(), KernelType(out.dtype())},
           .rows = block.rows,
           .width = columns});
    }
  });
}

void CpuOps::RunConv(const Tensor& x, const Weight& w, const ConvPlan& plan, const Tensor& out) {
  if (ConvBySharedTaps::Pays(kernels_.tiles[KernelType(w.dtype())], plan)) {
    RunConvBlocks(ConvBySharedTaps(kernels_, plan, x, w, pool_.threads()), w, plan.options, out);
  } else {
    RunConvBlocks(ConvByTaps(kernels_, plan, x, w, pool_.threads()), w, plan.options, out);
  }
}

void CpuOps::DepthToSpace(const Tensor& x, const DepthToSpaceOptions& options, Tensor out) {
  const SpaceTime s = options.factor;
  const int64_t drop = options.drop_first ? 1 : 0, channels = x.dim(3) / s.product();
  CheckDepthToSpace(x, options, out);
  KINORA_CHECK(x.dtype() == out.dtype()) << DTypeName(x.dtype()) << " to " << DTypeName(out.dtype());
  stream_.Enqueue([this, x, options, out, s, drop, channels] {
    const int64_t rows = out.dim(0) * out.dim(1) * out.dim(2);
    const bool add = options.accumulate == Accumulate::kAdd;
    const auto load = [](const char* p, DType dtype, int64_t i) {
      return dtype == DType::kF32 ? reinterpret_cast<const float*>(p)[i]
                                  : static_cast<float>(reinterpret_cast<const bf16*>(p)[i]);
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
          float value = load(in, x.dtype(), from);
          if (add) value += load(o, out.dtype(), c);
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
