// Norms over rows, fused with the transformer's ops around them: the gated residual before, and one or two modulations
// after. One pass over memory each way.
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
  int64_t rows = kAllRows;  // only the first `rows` rows are written
  Modulation modulation{};  // table null: none; otherwise out = norm · (1 + scale) + shift
  int scale_slot = 0, shift_slot = 0;
};

// First, if y.data is set: x += gate ⊙ y (no gate: 1) for the first y_rows rows, rounded to x's type and stored. Then
// norm = activation(kind(x) · weight) (weight null: 1), then each output. first.out may be x if there is no second
// output; without outputs only the residual is updated. Sums are float32, in an order that depends on the width alone.
//
// Minimum traffic: x once, twice with a residual; y and the outputs once; tables once per row that uses them, mostly
// from the second-level cache.
struct RowNorm {
  int64_t rows = 0, width = 0;
  Rows x;
  int64_t first_row = 0;  // row number of x's first row, for modulations and gate
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

// Returns cudaErrorInvalidValue if there are no rows, more than 2^31 − 1 rows, a width beyond 16,384, or more than
// two outputs or outputs of different types.
cudaError_t LaunchRowNorm(const RowNorm& norm, cudaStream_t stream);

}  // namespace kinora::kernels

#endif  // KINORA_KERNELS_ROW_NORM_H_
