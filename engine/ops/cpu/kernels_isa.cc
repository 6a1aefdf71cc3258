// Compiled once per instruction set: KINORA_ISA names the namespace, the compiler flags choose the vectors.
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/vec.h"
#include "engine/ops/cpu/vec_math.h"

namespace kinora::cpu {
namespace {

constexpr int64_t kScratch = kMaxRowWidth;

// Apply a vector function to a vector, or to one number.
template <typename F>
inline Vec Apply(Vec v, F f) {
  return f(v);
}
template <typename F>
inline float Apply(float x, F f) {
  return f(Splat(x))[0];
}

// Each file uses definitions of the files before it.
// clang-format off
#include "engine/ops/cpu/kernels_matmul.inc"
#include "engine/ops/cpu/kernels_rows.inc"
#include "engine/ops/cpu/kernels_attention.inc"
#include "engine/ops/cpu/kernels_audio.inc"
#if defined(KINORA_AMX)
#include "engine/ops/cpu/kernels_amx.inc"
#endif
// clang-format on

}  // namespace

namespace KINORA_ISA {

extern const Kernels kKernels;
const Kernels kKernels = {
    .panel_columns = kPanelColumns,
#if defined(KINORA_AMX)
    .tiles = {{kTileRows, kLanes, 1, 1}, {kTilePair, kTapLanes, kBlockUnits, kAmxRows}},
    .pack_rows = PackAmxRows,
    .multiply = MultiplyAmx,
    .pack_lanes = PackAmxLanes,
    .multiply_taps = MultiplyAmxTaps,
    .pack_columns = PackColumns,
    .pack_values = PackAmxValues,
#else
    .tiles = {{kTileRows, kLanes, 1, 1}, {kTileRows, kLanes, 1, 1}},
    .pack_rows = PackRows,
    .multiply = Multiply,
    .pack_lanes = PackLanes,
    .multiply_taps = MultiplyTaps,
    .pack_columns = PackColumns,
    .pack_values = PackValues,
#endif
    .softmax = Softmax,
    .unpack_columns = UnpackColumns,
    .epilogue = Epilogue,
    .norm = NormRows,
    .gated_add = GatedAddRows,
    .norm_rope = NormRopeRows,
    .elementwise = ElementwiseRows,
    .sum_of_squares = SumOfSquaresRows,
    .pointwise = PointwiseRows,
    .snake = SnakeRows,
};

}  // namespace KINORA_ISA
}  // namespace kinora::cpu
