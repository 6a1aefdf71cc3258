// The inner loops of the CPU backend, compiled once per instruction set and chosen at startup. Raw pointers and sizes
// only: nothing here may use inline code of other headers, or the linker could pick a copy compiled for another
// instruction set.
#ifndef KINORA_ENGINE_OPS_CPU_KERNELS_H_
#define KINORA_ENGINE_OPS_CPU_KERNELS_H_

#include <cstdint>

#include "engine/ops/cpu/kernel_args.h"

namespace kinora::cpu {

// How rows are packed for a product: in tiles whose depth is counted in units of 32 bits, a float or a pair of bf16.
struct TileShape {
  int rows;       // rows of a tile
  int lanes;      // rows of a tile that the taps of a convolution share: its results' rows and their neighbours
  int row_units;  // adjacent units of one row
  int row_step;   // any number of rows costs as much as the next multiple of row_step
};

inline constexpr int kMaxLanes = 40;  // upper bound for every TileShape

struct Kernels {
  int panel_columns;   // of packed weights
  TileShape tiles[2];  // of packed activations, by type

  // Packs `length` elements, from k_begin on, of each of m rows of activations to depth k of tiles of TileShape::rows
  // rows: [m / tile rows][capacity / row_units][tile rows][row_units], with capacity counted in units and rounded up. k
  // and capacity are even; an odd length is padded with a zero. Runs of depth must be packed in ascending k: the last
  // is padded with zeros to a whole row_units, which multiply reads.
  void (*pack_rows)(const void* const* rows, Type from, int64_t m, int64_t k_begin, int64_t length, int64_t k,
                    int64_t capacity, Type to, void* out);
  // c[m, columns] (= or +=) packed rows · packed panels, over depth `k`; panels are panel_stride bytes apart.
  void (*multiply)(const void* a, int64_t capacity, const void* panels, int64_t panel_stride, Type type, int64_t m,
                   int64_t k, int64_t columns, float* c, int64_t c_stride, bool first);
  // Packs up to `lanes` rows as one tile of `lanes` rows: [length in row_units][lanes][row_units]. Odd lengths are
  // padded with zeros; missing rows are undefined.
  void (*pack_lanes)(const void* const* rows, int64_t row_count, Type from, int64_t k_begin, int64_t length, Type to,
                     void* out);
  void (*multiply_taps)(const TapsArgs& args);
  // Packs [count, width] as panels whose columns are the rows, padded with zeros to a whole panel.
  void (*pack_columns)(const RowsView& rows, int64_t count, int64_t width, Type to, void* out);
  // Packs the columns of [count, width] as the rows of tiles of depth `count`, as pack_rows would pack the transpose
  // with an even capacity.
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

// Returns the kernels of ThisCpuPath().
const Kernels& SelectKernels();

}  // namespace kinora::cpu

#endif  // KINORA_ENGINE_OPS_CPU_KERNELS_H_
