// The inner loops of the CPU backend, compiled once per instruction set and chosen at start. Raw pointers and sizes
// only: nothing here may use inline code of other headers, or the linker could pick a copy compiled for another
// machine.
#ifndef KINORA_ENGINE_OPS_CPU_KERNELS_H_
#define KINORA_ENGINE_OPS_CPU_KERNELS_H_

#include <cstdint>

#include "engine/ops/cpu/kernel_args.h"

namespace kinora::cpu {

// How rows are packed for a product: in tiles, whose depth is counted in units of 32 bits, a float or a pair of bf16.
struct TileShape {
  int rows;       // of a tile
  int lanes;      // rows of a tile that the taps of a convolution share: those of its results and those beside them
  int row_units;  // units of one row that lie together
  int row_step;   // any number of rows costs as much as the next multiple of it
};

inline constexpr int kMaxLanes = 40;  // of every TileShape

struct Kernels {
  int panel_columns;   // of packed weights
  TileShape tiles[2];  // of packed activations, by type

  // Activations, m rows from k_begin on, `length` elements each, to depth k of tiles of TileShape::rows rows:
  // [m / tile rows][capacity / row_units][tile rows][row_units], capacity counted in units and rounded up. k and
  // capacity are even; an odd length is filled up with a zero. Runs of depth are packed in ascending k: behind the
  // last, to a whole row_units, are zeros, which multiply reads.
  void (*pack_rows)(const void* const* rows, Type from, int64_t m, int64_t k_begin, int64_t length, int64_t k,
                    int64_t capacity, Type to, void* out);
  // c[m, columns] (= or +=) packed rows · packed panels, `k` long; panels lie panel_stride bytes apart.
  void (*multiply)(const void* a, int64_t capacity, const void* panels, int64_t panel_stride, Type type, int64_t m,
                   int64_t k, int64_t columns, float* c, int64_t c_stride, bool first);
  // Up to `lanes` rows as one tile of `lanes` rows: [length in row_units][lanes][row_units]. Odd lengths are filled up
  // with zeros; missing rows hold anything.
  void (*pack_lanes)(const void* const* rows, int64_t row_count, Type from, int64_t k_begin, int64_t length, Type to,
                     void* out);
  void (*multiply_taps)(const TapsArgs& args);
  // Packs [count, width] as panels whose columns are the rows, with zeros up to a whole panel.
  void (*pack_columns)(const RowsView& rows, int64_t count, int64_t width, Type to, void* out);
  // Packs the columns of [count, width] as the rows of tiles, `count` long, as pack_rows would pack its transpose with
  // an even capacity.
  void (*pack_values)(const RowsView& values, int64_t count, int64_t width, Type to, void* out);
  void (*softmax)(const SoftmaxArgs& args);
  // Row q of out = column q of panel [width, panel_columns] times factor[q], for q < rows <= panel_columns.
  void (*unpack_columns)(const float* panel, int64_t width, int64_t rows, const float* factor, const RowsView& out);

  void (*epilogue)(const EpilogueArgs& args);
  void (*norm)(const NormArgs& args, int64_t row_begin, int64_t row_end);
  void (*gated_add)(const GatedAddArgs& args, int64_t row_begin, int64_t row_end);
  void (*norm_rope)(const NormRopeArgs& args, int64_t row_begin, int64_t row_end);
  void (*elementwise)(const ElementwiseArgs& args, int64_t row_begin, int64_t row_end);
  void (*sum_of_squares)(const RowsView& x, int64_t width, int64_t row_begin, int64_t row_end, float* out);
  void (*pointwise)(const RowsView& x, const RowsView& out, int64_t width, Curve curve, float a, float b,
                    int64_t row_begin, int64_t row_end);
  void (*snake)(const SnakeArgs& args, int64_t row_begin, int64_t row_end);
};

inline constexpr int64_t kMaxRowWidth = 1 << 14;  // elements of a row that a kernel keeps in float32 at once

inline constexpr float kNoLogit = -3.0e38f;  // below any logit that counts: the maximum of a query that has seen no key

// Those of ThisCpuPath().
const Kernels& SelectKernels();

}  // namespace kinora::cpu

#endif  // KINORA_ENGINE_OPS_CPU_KERNELS_H_
