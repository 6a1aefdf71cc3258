// Norms over rows, with what stands before and after them in the transformer: the gated residual, and one or two
// modulations. One pass over memory each way.
#ifndef KINORA_KERNELS_ROW_NORM_H_
#define KINORA_KERNELS_ROW_NORM_H_

#include <cuda_runtime.h>

#include "kernels/rows.h"

namespace kinora::kernels {

enum class NormKind : uint8_t {
  kNone,   // x
  kRms,    // x · rsqrt(mean x² + eps)
  kLayer,  // (x − mean) · rsqrt(variance + eps)
};
enum class NormActivation : uint8_t { kNone, kSilu, kGeluTanh };

inline constexpr int64_t kAllRows = int64_t{1} << 62;

struct ModulatedOutput {
  Rows out;
  int64_t rows = kAllRows;  // of the first rows only
  Modulation modulation{};  // table null: none. out = norm · (1 + scale) + shift
  int scale_slot = 0, shift_slot = 0;
};

// First, if y.data is set: x += gate ⊙ y (no gate: 1) for the first y_rows rows, rounded to x's type and stored. Then
// norm = kind(x) · weight (null: 1) and its activation; then each output. first.out may be x where there is no second
// one; no outputs: the residual alone. All sums are float32, in one order that depends on the width alone.
//
// Bytes at least: x once, written too with a residual; y, the outputs once; tables once per row that they are read for,
// mostly from the second-level cache.
struct RowNorm {
  int64_t rows = 0, width = 0;
  Rows x;
  int64_t first_row = 0;  // of x's among those that modulations and gate count
  Rows y{};
  int64_t y_rows = kAllRows;
  Modulation gate{};
  int gate_slot = 0;
  NormKind kind = NormKind::kRms;
  float eps = 1e-6f;
  const float* weight = nullptr;  // [width]
  NormActivation activation = NormActivation::kNone;
  ModulatedOutput first{}, second{};
  int outputs = 1;
};

// cudaErrorInvalidValue: no rows, more than 2^31 − 1 of them, a width beyond 16,384, or more outputs than two.
cudaError_t LaunchRowNorm(const RowNorm& norm, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_ROW_NORM_H_
