// The parameter structs of Ops; the ones for pixel ops are in pixel_params.h. Plain values: an op may keep a copy in a
// captured graph.
#ifndef KINORA_ENGINE_OPS_OP_PARAMS_H_
#define KINORA_ENGINE_OPS_OP_PARAMS_H_

#include <array>
#include <cstdint>

#include "engine/tensor/tensor.h"

namespace kinora {

inline constexpr int64_t kMaxHeadWidth = 512;         // of attention; Gemma-4's layers with full attention have it
inline constexpr int64_t kMaxChunkedHeadWidth = 256;  // of attention in chunks
inline constexpr int64_t kMaxNeighbourhoodHeadWidth = 128;
inline constexpr int64_t kMaxRowWidth = 1 << 14;  // most columns of a tensor that is normalised, modulated or convolved

enum class Activation : uint8_t { kNone, kSilu, kGeluTanh };

// A table of scales, shifts and gates, all float32. Token i uses table row r = row[i mod tokens] (0 if `row` is
// undefined, k = 1), so several guidance passes over the same tokens share one `row`; slot s is then base[s] +
// table[r][s].
struct Modulation {
  Tensor table{};  // [k, slots, width] f32
  Tensor base{};   // [>= slots, width] f32, or undefined: zeros
  Tensor row{};    // [tokens] i32, or undefined
};
struct ScaleShift {  // y = x · (1 + scale) + shift
  Modulation modulation{};
  int scale_slot = 0;
  int shift_slot = 0;
};
struct Gate {
  Modulation modulation{};
  int slot = 0;
};

enum class Accumulate : uint8_t {
  kNo,     // out = y
  kAdd,    // out += y
  kGated,  // out += gate ⊙ y
};
struct MatmulOptions {
  Activation activation = Activation::kNone;  // applied after the bias
  Accumulate accumulate = Accumulate::kNo;
  Gate gate{};  // only with kGated
};

// The RMS norm, without a weight, of a tensor's first out.rows() rows.
struct NormedOutput {
  Tensor out{};             // undefined: no output
  ScaleShift modulation{};  // table undefined: no modulation
};
using NormedOutputs = std::array<NormedOutput, 2>;
// A residual to which a product y is added, and the norms of the sum that the next layers read.
struct ResidualUpdate {
  Tensor x{};   // [rows, width]; its first y.rows() rows += gate ⊙ y
  Gate gate{};  // table undefined: a gate of 1
  float eps = 1e-6f;
  NormedOutputs normed{};
};

// The operands of a guided step from the velocities of a latent z. All tensors are float32 and contiguous.
struct Prediction {
  Tensor v{};         // [passes·tokens, channels]: velocities; may be overwritten
  Tensor sigma{};     // [1] or [tokens]
  Tensor weights{};   // [passes + 1], as in CombineGuidance
  int cond = 0;       // index of the conditioned pass
  Tensor clean{};     // [tokens, channels]: x0 = mask·x0 + (1 − mask)·clean; undefined: x0 stays
  Modulation mask{};  // slots mask − 1, 0 and 1 − mask, each the same for all channels; base undefined
  Tensor x0{};        // out: [tokens, channels]
};

// Normalisation over neighbouring channels at all positions of a sample (Wu and He, "Group Normalization", 2018).
struct GroupNormParams {
  Tensor weight{}, bias{};  // [width] f32
  int64_t groups = 1;       // of width/groups neighbouring columns
  int64_t samples = 1;      // equal runs of rows, each with its own means and variances
  float eps = 1e-5f;
};

// Rotation angles, split layout: within a head of width d the pair is (j, j + d/2).
struct Rope {
  // [tokens, heads·d/2], or [tokens, d/2] shared by all heads; f32; undefined: no rotation. Row i uses token i mod
  // tokens.
  Tensor cos{}, sin{};
  // [frames, n] f32, contiguous, or undefined. With tables shared by all heads: pairs 0 … n − 1 of row i turn by row
  // i / tokens of these instead, so that tables of a frame and of time suffice for a clip.
  Tensor frame_cos{}, frame_sin{};
};
// The angles of a rotation table with columns of several axes. Column c of the table is column C = first_column + c of
// a wider one; where C = pad + k·axes + a, it turns token t by fractions[a, t]·frequencies[k], rounded to float32. The
// first `pad` columns do not turn.
struct RopeAngles {
  Tensor fractions{};    // [axes, tokens] f32
  Tensor frequencies{};  // [n] f32
  int64_t pad = 0;
  int64_t first_column = 0;
};
struct NormRopeParams {
  Tensor weight{};  // [group] f32; undefined: no norm
  float eps = 1e-6f;
  int64_t group = 0;       // columns normalised together: the width, or the width of a head
  int64_t full_group = 0;  // columns that share the mean square when the group is sharded; 0: group
  int64_t head_width = 0;  // d, for the rotation
  Rope rope{};
};

// Queries, keys and values [sequences·rows, n·w] that leave for n ranks, w columns for each. q and k may be
// overwritten.
struct QkvParts {
  Tensor q{}, k{}, v{};
  NormRopeParams q_params{}, k_params{};
  Tensor q_sums{}, k_sums{};  // sums of squares, as in NormRope; undefined: computed
};
// What the ranks of a group sent for this rank's rows of x, n·w columns: x's rows from first_block on.
struct HeadBlocks {
  Tensor blocks{};  // [sequences, n, rows, w], contiguous: row s·rows + i, columns b·w … of x are blocks[s, b, i]
  int64_t first_block = 0;
  Tensor values{};  // replace x's rows from first_value on, blocks too; undefined: none
  int64_t first_value = 0;
};

inline constexpr int kMaxBatch = 8;
struct AttentionOptions {
  int heads = 0;
  int kv_heads = 0;    // 0: heads. Query head h reads key head h / (heads / kv_heads).
  float scale = 1.0f;  // of the logits
  int batch = 1;       // sequences stacked in q's rows
  // kv_batch[b]: which of the kv_batches sequences stacked in k's and v's rows query batch b reads.
  int kv_batches = 1;
  std::array<int8_t, kMaxBatch> kv_batch{};
  int64_t key_length = -1;  // keys from this position of a sequence on are ignored; negative: none are
  bool causal = false;      // key position <= query position (both from 0)
  int64_t window = 0;       // with causal: query position - key position < window; 0: no window
  Tensor bias{};            // [queries, keys] f32, added to the scaled logits of every batch and head; undefined: none
};

struct PointwiseFunction {
  enum Kind : uint8_t {
    kLeakyRelu,  // x < 0 ? a·x : x
    kTanh,
    kClamp,     // min(max(x, a), b)
    kLogFloor,  // ln(max(x, a))
  } kind = kTanh;
  float a = 0, b = 0;
};

// x + amplitude · sin²(x · frequency), computed at twice the sampling rate so that the harmonics it creates do not
// alias (BigVGAN). All tensors are f32 and contiguous. `up` has an even number of taps; each filter has at most
// kMaxSnakeTaps. Edges repeat the first and the last row.
inline constexpr int kMaxSnakeTaps = 64;
struct AntiAliasedSnake {
  Tensor frequency, amplitude;  // [width]
  Tensor up, down;              // filters, [taps]
};

}  // namespace kinora

#endif  // KINORA_ENGINE_OPS_OP_PARAMS_H_
