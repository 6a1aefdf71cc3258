#include "engine/ops/host_product.h"

#include <algorithm>
#include <vector>

#include "engine/ops/cpu/kernels.h"

namespace kinora {
namespace {

// A block of the product, whose operands and sums fit an L2 cache at a depth of some hundreds.
constexpr int64_t kBlockRows = 128, kBlockColumns = 256;

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Packs `columns` columns of b for Kernels::multiply: [panels][RoundUp(depth, 2)][panel].
void PackPanels(const HostRows& b, int64_t depth, int64_t columns, int64_t panel, float* to) {
  for (int64_t column = 0; column < columns; column += panel, to += RoundUp(depth, 2) * panel) {
    const int64_t count = std::min(panel, columns - column);
    for (int64_t k = 0; k < depth; ++k) {
      std::copy_n(b.data + k * b.stride + column, count, to + k * panel);
      std::fill_n(to + k * panel + count, panel - count, 0.0f);
    }
  }
}

}  // namespace

void AddHostProduct(const HostRows& a, const HostRows& b, int64_t rows, int64_t depth, int64_t columns, float* out,
                    int64_t out_stride) {
  const cpu::Kernels& kernels = cpu::SelectKernels();
  const int64_t padded = RoundUp(depth, 2), panel = kernels.panel_columns;
  std::vector<float> panels(padded * RoundUp(kBlockColumns, panel));  // zeros where b has no row or column
  std::vector<float> tiles(padded * RoundUp(kBlockRows, kernels.tiles[cpu::kFloat32].rows));
  std::vector<float> sums(kBlockRows * kBlockColumns);
  const void* rows_of_a[kBlockRows];
  for (int64_t column = 0; column < columns; column += kBlockColumns) {
    const int64_t block_columns = std::min(kBlockColumns, columns - column);
    PackPanels({b.data + column, b.stride}, depth, block_columns, panel, panels.data());
    for (int64_t row = 0; row < rows; row += kBlockRows) {
      const int64_t block_rows = std::min(kBlockRows, rows - row);
      for (int64_t i = 0; i < block_rows; ++i) rows_of_a[i] = a.data + (row + i) * a.stride;
      kernels.pack_rows(rows_of_a, cpu::kFloat32, block_rows, 0, depth, 0, padded, cpu::kFloat32, tiles.data());
      kernels.multiply(tiles.data(), padded, panels.data(), padded * panel * static_cast<int64_t>(sizeof(float)),
                       cpu::kFloat32, block_rows, depth, block_columns, sums.data(), kBlockColumns, /*first=*/true);
      kernels.epilogue({.c = sums.data(),
                        .c_stride = kBlockColumns,
                        .mode = cpu::EpilogueArgs::kAdd,
                        .out = {out + row * out_stride + column, out_stride, cpu::kFloat32},
                        .rows = block_rows,
                        .width = block_columns});
    }
  }
}

}  // namespace kinora
