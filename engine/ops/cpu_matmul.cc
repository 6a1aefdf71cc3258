// Linear layers: blocked products with packed weights (Goto & van de Geijn, "Anatomy of high-performance matrix
// multiplication").
#include <algorithm>

#include "engine/ops/cpu_blocks.h"
#include "engine/ops/cpu_ops.h"
#include "engine/ops/cpu_views.h"
#include "engine/ops/cpu_weight.h"
#include "engine/ops/cpu_workspace.h"
#include "engine/ops/op_work.h"

namespace kinora {

void CpuOps::Matmul(const Tensor& x, const Weight& w, const MatmulOptions& options, Tensor out) {
  KINORA_CHECK(w.taps() == 1 && x.width() == w.in())
      << x.shape().ToString() << " by [" << w.out() << ", " << w.in() << "]";
  KINORA_CHECK(out.width() == w.out() && out.rows() == x.rows())
      << x.shape().ToString() << " by [" << w.out() << ", " << w.in() << "] into " << out.shape().ToString();
  const Weight* weight = &w;  // outlives the graph: model lifetime
  stream_.Enqueue([this, x, weight, options, out] { RunMatmul(x, *weight, options, out); }, "Matmul",
                  WorkOfMatmul(x, w));
}

void CpuOps::RunMatmul(const Tensor& x, const Weight& w, const MatmulOptions& options, const Tensor& out) {
  const int64_t rows = x.rows();
  const CpuWeight& stored = CpuWeight::Of(w);
  const PackedLayout layout(kernels_, KernelType(w.dtype()), w.out(), 1, w.in());
  const BlockGrid grid(kernels_, layout.type, rows, w.out(), layout.depth(), pool_.threads());
  const cpu::ModulationView gate =
      options.accumulate == Accumulate::kGated ? View(options.gate.modulation, out.width()) : cpu::ModulationView{};
  pool_.Run(grid.tasks(), [&](int64_t task, int thread) {
    const BlockGrid::Block block = grid.At(task);
    Workspace space(workspace_[thread].data());
    for (int64_t i = 0; i < block.rows; ++i) space.row_pointers[i] = At(x, block.row + i);
    const int64_t step = kBlockDepthBytes / (layout.type == cpu::kFloat32 ? 4 : 2);
    for (int64_t column = block.column; column < block.column_end; column += kBlockColumns) {
      const int64_t columns = std::min(kBlockColumns, block.column_end - column);
      for (int64_t k = 0; k < w.in(); k += step) {
        const int64_t depth = std::min(step, w.in() - k);
        const int64_t padded = (depth + 1) / 2 * 2;
        kernels_.pack_rows(space.row_pointers, KernelType(x.dtype()), block.rows, k, depth, 0, padded, layout.type,
                           space.packed);
        kernels_.multiply(space.packed, padded,
                          layout.PanelAt(stored.panels.data(), column / kernels_.panel_columns, k), layout.panel_bytes,
                          layout.type, block.rows, depth, columns, space.sums, kBlockColumns, k == 0);
      }
      kernels_.epilogue(
          {.c = space.sums,
           .c_stride = kBlockColumns,
           .bias = stored.bias_at(column),
           .activation = KernelAct(options.activation),
           .mode = KernelMode(options.accumulate),
           .gate = gate,
           .gate_slot = options.gate.slot,
           .gate_column = column,
           .first_row = block.row,
           .out = {At(out, block.row) + column * DTypeSize(out.dtype()), out.row_stride(), KernelType(out.dtype())},
           .rows = block.rows,
           .width = columns});
    }
  });
}

}  // namespace kinora
