// Arguments of the kernels of kernels.h: raw pointers and sizes, with strides in elements.
#ifndef KINORA_ENGINE_OPS_CPU_KERNEL_ARGS_H_
#define KINORA_ENGINE_OPS_CPU_KERNEL_ARGS_H_

#include <cstdint>

namespace kinora::cpu {

enum Type : int { kFloat32 = 0, kBfloat16 = 1 };
enum Act : int { kIdentity = 0, kSiluAct = 1, kGeluTanhAct = 2 };

// A view of rows of f32 or bf16; stride in elements.
struct RowsView {
  void* data{};
  int64_t stride{};
  Type type{};
};

// See Modulation in op_params.h. Null table: no modulation.
struct ModulationView {
  const float* table{};
  const float* base{};
  const int32_t* row{};
  int64_t tokens{};  // extent of row; 1 without it
  int64_t slots{}, width{};
};

struct NormArgs {
  RowsView x{}, out{};
  int64_t width{};
  enum Kind : int { kNone, kRms, kLayer } kind{};
  float eps{};
  const float* weight{};  // [width] or null
  Act activation{};       // before the modulation
  ModulationView modulation{};
  int scale_slot{}, shift_slot{};
};

struct GatedAddArgs {
  RowsView y{}, x{};  // x += gate ⊙ y
  int64_t width{};
  ModulationView gate{};
  int slot{};
};

inline constexpr int64_t kMaxAxialWidth = 128;  // of a head whose pairs turn by tables of a frame and of time

struct NormRopeArgs {
  RowsView x{};  // in place
  int64_t width{}, group{}, full_group{}, head_width{};
  const float* weight{};          // null: no norm
  const float* sum_of_squares{};  // [rows, width / group] or null
  float eps{};
  const float *cos{}, *sin{};  // null: no rotation
  int64_t rope_width{};        // columns of the table: width / 2, or head_width / 2 shared by all heads
  int64_t rope_tokens{};
  const float *frame_cos{}, *frame_sin{};  // [frames, frame_width] or null: see Rope in op_params.h
  int64_t frame_width{};
};

enum class Elementwise : int {
  kSilu,
  kGeluTanh,
  kCopy,
  kAdd,
  kSiluMultiply,
  kGeluTanhMultiply,
  kScale,
  kAffine,
  kGateHeads
};
struct ElementwiseArgs {
  Elementwise op{};
  RowsView a{}, b{}, out{};  // b: the second operand, or [rows, heads] logits of kGateHeads
  int64_t width{};
  float factor{};                  // kScale
  const float *scale{}, *shift{};  // kAffine, [width]
  int64_t head_width{};            // kGateHeads
};

// Processing of finished rows of sums. Columns [0, width) of c go to columns [0, width) of out.
struct EpilogueArgs {
  const float* c{};
  int64_t c_stride{};
  const float* bias{};  // for the first column on, or null
  Act activation{};
  enum Mode : int { kStore, kAdd, kGated } mode{};
  ModulationView gate{};
  int gate_slot{};
  int64_t gate_column{};  // the gate's column for the first column
  int64_t first_row{};    // index of row 0 in the gate's rows
  RowsView out{};
  int64_t rows{}, width{};
};

// The running softmax of one panel of queries against one block of keys. Columns are queries; the first `queries` are
// computed.
struct SoftmaxArgs {
  float* s{};  // [keys, panel_columns]. In: logits. Out: weights exp2(…) as a panel for `multiply`, in bf16 pairs of
               // keys if `type` is kBfloat16
  Type type{};
  int64_t keys{}, queries{};
  float scale{};        // of the logits, positive
  const float* bias{};  // [queries, bias_stride] or null
  int64_t bias_stride{};
  const int32_t* first_key{};  // [panel_columns]: first key that counts, in this block
  const int32_t* last_key{};   // [panel_columns]: one past the last one; both null: all keys count
  const float* mask{};   // [keys, panel_columns]: 0 or kNoLogit, added to the scaled logits; null: none. Without bias
                         // and key ranges
  float* maximum{};      // [panel_columns] running
  float* denominator{};  // [panel_columns] running
  float* sums{};         // [width, panel_columns] running, rescaled where the maximum grows; null: none yet
  int64_t width{};
};

// A run of depth in units of 32 bits (a float, or a pair of bf16): its start in a tile (a) and in a panel (b), and its
// length.
struct DepthRun {
  int64_t a{}, b{}, units{};
};

// Products with tiles that several taps share: each tap reads the same tile from another lane on.
struct TapsArgs {
  const void* tiles{};  // packed by pack_lanes
  int64_t tile_bytes{}, tile_count{};
  const int64_t* tile_rows{};  // [tile_count]: results per tile, at most TileShape::rows
  const DepthRun* runs{};
  int64_t run_count{};
  const void* panels{};
  int64_t panel_stride{};
  Type type{};
  int64_t columns{};
  float* c{};  // [sum of tile_rows, columns]
  int64_t c_stride{};
  bool first{};  // c = rather than c +=
};

// The kinds of PointwiseFunction (op_params.h) that need no functions of the C library.
enum class Curve : int { kLeakyRelu, kClamp };

struct SnakeArgs {  // contiguous f32 [rows, width]
  const float* x;
  float* out;  // must not overlap x
  int64_t rows, width;
  const float *frequency, *amplitude;  // [width]
  const float *up, *down;              // filters
  int up_taps, down_taps;              // at most kMaxSnakeTaps
};
inline constexpr int kMaxSnakeTaps = 64;

}  // namespace kinora::cpu

#endif  // KINORA_ENGINE_OPS_CPU_KERNEL_ARGS_H_
