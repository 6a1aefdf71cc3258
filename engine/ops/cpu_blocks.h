// The division of products into blocks, and the layout of packed weights. Internal to the CPU backend.
#ifndef KINORA_ENGINE_OPS_CPU_BLOCKS_H_
#define KINORA_ENGINE_OPS_CPU_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_params.h"

namespace kinora {

// Packed weights: panels of columns, each [taps · padded_in][columns]; bf16 values are packed in pairs along the
// depth.
struct PackedLayout {
  PackedLayout(const cpu::Kernels& kernels, cpu::Type type, int64_t out, int64_t taps, int64_t in)
      : type(type),
        columns(kernels.panel_columns),
        panels((out + columns - 1) / columns),
        padded_in((in + 1) / 2 * 2),
        taps(taps),
        panel_bytes(taps * padded_in * columns * (type == cpu::kFloat32 ? 4 : 2)) {}

  int64_t bytes() const { return panels * panel_bytes; }
  int64_t depth() const { return taps * padded_in; }
  const char* PanelAt(const void* storage, int64_t panel, int64_t k) const {
    return static_cast<const char*>(storage) + panel * panel_bytes + k * columns * (type == cpu::kFloat32 ? 4 : 2);
  }

  cpu::Type type;
  int64_t columns, panels, padded_in, taps, panel_bytes;
};

// Divides a product into blocks of rows, and into runs of columns if there are too few rows to occupy the threads. The
// division does not affect the order in which a row is summed.
class BlockGrid {
 public:
  struct Block {
    int64_t row, rows, column, column_end;
  };

  BlockGrid(const cpu::Kernels& kernels, cpu::Type type, int64_t rows, int64_t columns, int64_t depth, int threads)
      : rows_(rows), columns_(columns) {
    constexpr int64_t kWorthSharing = 1 << 18;  // multiply-adds: some 10 µs on one core
    if (rows * columns * depth < kWorthSharing) threads = 1;
    const auto cut = [](int64_t n, int64_t parts, int64_t unit) {
      return ((n + parts - 1) / parts + unit - 1) / unit * unit;
    };
    row_blocks_ = std::max<int64_t>(1, (rows + kBlockRows - 1) / kBlockRows);
    const int64_t tile_rows = kernels.tiles[type].rows;
    block_rows_ = std::max(tile_rows, cut(rows, row_blocks_, tile_rows));
    row_blocks_ = (rows + block_rows_ - 1) / block_rows_;
    // Every run packs the rows again, so take the fewest runs that keep all threads busy to within a tenth.
    const int64_t panels = (columns + kernels.panel_columns - 1) / kernels.panel_columns;
    int64_t runs = 1;
    const auto idle = [&] { return (threads - row_blocks_ * runs % threads) % threads * 10 > row_blocks_ * runs; };
    while (runs < panels && idle()) ++runs;
    run_columns_ = std::max<int64_t>(1, cut(columns, runs, kernels.panel_columns));
    column_runs_ = (columns + run_columns_ - 1) / run_columns_;
  }

  int64_t tasks() const { return row_blocks_ * column_runs_; }
  Block At(int64_t task) const {
    const int64_t row = task / column_runs_ * block_rows_, column = task % column_runs_ * run_columns_;
    return {row, std::min(block_rows_, rows_ - row), column, std::min(columns_, column + run_columns_)};
  }

 private:
  int64_t rows_, columns_, block_rows_, row_blocks_, run_columns_, column_runs_;
};

// One thread's scratch memory, laid out for matrix products.
struct Workspace {
  explicit Workspace(void* memory)
      : packed(static_cast<char*>(memory)),
        sums(reinterpret_cast<float*>(packed + kPackedBytes)),
        row_pointers(reinterpret_cast<const void**>(packed + kPackedBytes + kSumBytes)) {}
  char* packed;
  float* sums;
  const void** row_pointers;  // [kBlockRows]
};

inline cpu::EpilogueArgs::Mode KernelMode(Accumulate accumulate) {
  switch (accumulate) {
    case Accumulate::kNo:
      return cpu::EpilogueArgs::kStore;
    case Accumulate::kAdd:
      return cpu::EpilogueArgs::kAdd;
    case Accumulate::kGated:
      return cpu::EpilogueArgs::kGated;
  }
  return cpu::EpilogueArgs::kStore;
}

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_CPU_BLOCKS_H_
